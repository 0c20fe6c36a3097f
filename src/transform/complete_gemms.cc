#include "transform/complete_gemms.h"

#include <string>

#include "ir/async.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "op/gemm_wgmma.h"

namespace tilelang::transform {

using ir::Array;
using ir::Stmt;

namespace {

class GemmCompleter : public ir::StmtMutator {
 public:
  explicit GemmCompleter(const Target& target) : arch_(target->arch) {}
  using StmtMutator::Rewrite;

  Stmt Rewrite(const ir::GemmNode* op) override {
    int64_t groups = op::GroupsInFlight(op);
    bool must = op::MustBeWgmma(op);
    if (groups == 0 && !must) return StmtMutator::Rewrite(op);
    Remark(op->span, "argument",
           must ? "T.wgmma_gemm is T.gemm here and waits for its result: " + arch_ + " has no wgmma"
                : "T.gemm: wg_wait=" + std::to_string(groups) + " has no effect: " + arch_ +
                      " has no groups to wait for");
    return op::WithoutGroups(op);
  }
  Stmt Rewrite(const ir::WaitGroupNode* op) override {
    if (!op->by_program) return StmtMutator::Rewrite(op);
    Remark(op->span, "argument",
           "T.wait_wgmma has no effect: each GEMM waits for its result, because " + arch_ +
               " has no wgmma");
    return ir::Seq(Array<Stmt>(), op->span);
  }

 private:
  std::string arch_;
};

}  // namespace

ir::Func CompleteGemms(const ir::Func& func, const Target& target) {
  if (target->has_wgmma) return func;
  return func.WithBody(GemmCompleter(target).MutateStmt(func->body));
}

}  // namespace tilelang::transform
