#include "check/check_batch_invariance.h"

#include <string>
#include <string_view>

#include "ir/error.h"
#include "ir/intrinsics.h"
#include "ir/printer.h"
#include "ir/visitor.h"

namespace tilelang::check {

namespace {

[[noreturn]] void RefuseSum(const ir::Buffer& sum, const ir::Span& span) {
  TL_USER_ERROR(kSemantics, span,
                "tl.batch_invariant: atomic additions to "
                    << std::string(sum->name) << " (" << ir::ToString(sum->dtype)
                    << ") happen in the order in which threads and blocks arrive, so the sum "
                       "depends on the batch\n@note a reducer keeps an order: T.alloc_reducer(..., "
                       "deterministic=True), with scope=\"grid\" for sums over blocks; or give "
                       "each block a part of the output of its own");
}

class SumChecker : public ir::StmtVisitor {
 public:
  using StmtVisitor::Visit;

  void VisitStmt(const ir::Stmt& s) override {
    span_ = s.span();
    StmtVisitor::VisitStmt(s);
  }
  void Visit(const ir::CopyNode* op) override {
    if (op->Adds()) CheckSum(op->dst->buffer);
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::CallNode* op) override {
    if (op->Is(ir::Builtin::kAtomicAdd)) {
      for (const ir::MemoryEffect& effect : ir::CallEffects(op)) {
        if (effect.write) CheckSum(effect.buffer);
      }
    }
    StmtVisitor::Visit(op);
  }

 private:
  void CheckSum(const ir::Buffer& sum) const {
    if (ir::IsFloat(sum->dtype)) RefuseSum(sum, span_);
  }

  ir::Span span_;  // of the statement that is visited
};

}  // namespace

ir::Func CheckBatchInvariance(const ir::Func& func) {
  SumChecker().VisitStmt(func->body);
  return func;
}

}  // namespace tilelang::check
