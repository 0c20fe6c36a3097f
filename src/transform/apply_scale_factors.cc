#include "transform/apply_scale_factors.h"

#include <tvm/ffi/cast.h>

#include <vector>

#include "ir/gemm.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "op/gemm_scale_factors.h"

namespace tilelang::transform {

using ir::Array;
using ir::Stmt;

namespace {

const ir::GemmNode* ScaledGemm(const Stmt& s) {
  const auto* gemm = s.as<ir::GemmNode>();
  return gemm != nullptr && gemm->IsScaled() ? gemm : nullptr;
}

class ScaleApplier : public ir::StmtMutator {
 public:
  explicit ScaleApplier(const Target& target) : target_(target) {}
  using StmtMutator::Rewrite;

  Stmt Rewrite(const ir::SeqNode* op) override {
    std::vector<Stmt> stmts;
    for (const Stmt& s : op->stmts) {
      if (const ir::GemmNode* gemm = ScaledGemm(s)) {
        Expand(gemm, &stmts);
      } else {
        stmts.push_back(MutateStmt(s));
      }
    }
    return ir::Seq(Array<Stmt>(stmts.begin(), stmts.end()), op->span);
  }
  Stmt Rewrite(const ir::GemmNode* op) override {
    if (!op->IsScaled()) return StmtMutator::Rewrite(op);
    std::vector<Stmt> stmts;
    Expand(op, &stmts);
    return ir::Seq(Array<Stmt>(stmts.begin(), stmts.end()), op->span);
  }

 private:
  void Expand(const ir::GemmNode* op, std::vector<Stmt>* stmts) {
    RemarkGemm(op, "multiplies A and B by their scale factors before it, in bfloat16: " +
                       std::string(target_->arch) + " has no block-scaled tensor core");
    op::MultiplyByScaleFactors(op, stmts);
  }

  Target target_;
};

}  // namespace

ir::Func ApplyScaleFactors(const ir::Func& func, const Target& target) {
  if (target->has_tcgen05) return func;
  return func.WithBody(ScaleApplier(target).MutateStmt(func->body));
}

}  // namespace tilelang::transform
