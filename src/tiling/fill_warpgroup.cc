#include "tiling/fill_warpgroup.h"

#include <tvm/ffi/cast.h>

#include <string>

#include "analysis/kernel_scope.h"
#include "ir/gemm.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "op/gemm_tcgen05.h"
#include "op/gemm_wgmma.h"
#include "target/warp.h"
#include "tiling/fit_threads.h"
#include "tiling/retile.h"

namespace tilelang::tiling {

using ir::Stmt;

namespace {

class WarpgroupFiller : public ir::StmtMutator {
 public:
  explicit WarpgroupFiller(const Target& target) : target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    int64_t given = analysis::ThreadsOf(op).count;
    bool possible = op->threads.size() == 1 && given > 0 && given < kWarpgroup &&
                    given % kWarp == 0 && HasOpenThreads(op) && MultipliesByWarpgroups(op);
    if (!possible) return self;
    Remark(op->span, "threads",
           "T.Kernel: 128 threads instead of " + std::to_string(given) +
               " compute a block: the tensor core's instructions for whole warpgroups need as "
               "many. The pass option tl.disable_block_fitting turns this off");
    return WithThreads(op, kWarpgroup);
  }

 private:
  bool MultipliesByWarpgroups(const ir::KernelLaunchNode* op) const {
    bool all = true;
    int gemms = 0;
    ir::WalkStmts(op->body, [&](const Stmt& s) {
      const auto* gemm = s.as<ir::GemmNode>();
      if (gemm == nullptr) return all;
      ++gemms;
      all = all &&
            (target_->has_tcgen05 ? op::Tcgen05Lacks(gemm, {0, kWarpgroup}, {}, target_).empty()
                                  : op::MultipliesByWgmma(gemm, kWarpgroup));
      return all;
    });
    return all && gemms > 0;
  }

  Target target_;
};

}  // namespace

ir::Func FillWarpgroup(const ir::Func& func, const Target& target) {
  if (!target->has_tcgen05 && !target->has_wgmma) return func;
  return func.WithBody(WarpgroupFiller(target).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
