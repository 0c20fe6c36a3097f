#include "transform/apply_scale_factors.h"

#include <tvm/ffi/cast.h>

#include <vector>

#include "ir/error.h"
#include "ir/padded.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "op/gemm_mma_scales.h"
#include "op/gemm_scale_factors.h"

namespace tilelang::transform {

using ir::Array;
using ir::Stmt;

namespace {

class ScaleApplier : public ir::StmtMutator {
 public:
  explicit ScaleApplier(const Target& target) : target_(target) {}
  using StmtMutator::Rewrite;

  Stmt Rewrite(const ir::SeqNode* op) override {
    std::vector<Stmt> stmts;
    for (const Stmt& s : op->stmts) {
      const auto* gemm = s.as<ir::GemmNode>();
      if (gemm != nullptr && IsForOthers(gemm)) {
        Expand(gemm, &stmts);
      } else {
        stmts.push_back(MutateStmt(s));
      }
    }
    return ir::Seq(Array<Stmt>(stmts.begin(), stmts.end()), op->span);
  }
  Stmt Rewrite(const ir::GemmNode* op) override {
    if (!IsForOthers(op)) return StmtMutator::Rewrite(op);
    std::vector<Stmt> stmts;
    Expand(op, &stmts);
    return ir::Seq(Array<Stmt>(stmts.begin(), stmts.end()), op->span);
  }

 private:
  // Returns whether the tensor cores of the target cannot compute the gemm.
  bool IsForOthers(const ir::GemmNode* op) const {
    if (!op->IsScaled()) return ir::HasPaddedInput(op);
    return op->HasScalesInTmem() || !op::HasScaledMma(target_);
  }
  void Expand(const ir::GemmNode* op, std::vector<Stmt>* stmts) {
    if (op->HasScalesInTmem()) {
      TL_USER_ERROR(kTarget, op->span,
                    "T.tcgen05_gemm_blockscaled: "
                        << std::string(target_->arch)
                        << " has no tcgen05; compile with target=\"sm_100a\", or write "
                           "T.gemm(..., scale_A=, scale_B=), which every target has");
    }
    const std::string arch(target_->arch);
    RemarkGemm(op, op->IsScaled()
                       ? "multiplies A and B by their scale factors first, in bfloat16: " + arch +
                             " has no block-scaled tensor core"
                       : "converts its padded tiles to bfloat16 first, because only tcgen05.mma "
                         "multiplies them directly");
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
