#include "tiling/fit_warps.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "analysis/kernel_scope.h"
#include "arith/analyzer.h"
#include "ir/gemm.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "op/context.h"
#include "op/gemm_mma.h"
#include "op/gemm_tcgen05.h"
#include "op/gemm_wgmma.h"
#include "target/warp.h"
#include "tiling/fit_threads.h"
#include "tiling/retile.h"

namespace tilelang::tiling {

using ir::Stmt;

namespace {

// Returns the first number of threads, in steps of `step` from `from` down, that passes the test; 0
// if none does.
int64_t FirstDown(int64_t from, int64_t step, const std::function<bool(int64_t)>& test) {
  int64_t threads = from - from % step;
  while (threads > 0 && !test(threads)) threads -= step;
  return threads;
}

class WarpFitter : public ir::StmtMutator {
 public:
  explicit WarpFitter(const Target& target) : target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    int64_t given = analysis::ThreadsOf(op).count;
    bool possible =
        op->threads.size() == 1 && given > 0 && given % kWarp == 0 && HasOpenThreads(op);
    if (!possible) return self;
    layouts_ = op::LayoutMap::Annotated(op);
    gemms_.clear();
    ir::WalkStmts(op->body, [&](const Stmt& s) {
      if (const auto* gemm = s.as<ir::GemmNode>()) gemms_.push_back(gemm);
      return true;
    });
    int64_t best = gemms_.empty() ? given : BestFor(given);
    if (best == given) return self;
    Remark(op->span, "threads",
           "T.Kernel: " + std::to_string(best) + " threads instead of " + std::to_string(given) +
               " compute a block: the tensor core has instructions for its GEMMs by as many. The "
               "pass option tl.disable_block_fitting turns this off");
    return WithThreads(op, best);
  }

 private:
  int64_t BestFor(int64_t given) const {
    if (AreByWarpgroups(given)) return given;
    int64_t most = std::max<int64_t>(given, kWarpgroup);
    int64_t best = FirstDown(most, kWarpgroup, [&](int64_t n) { return AreByWarpgroups(n); });
    if (best == 0) best = FirstDown(given, kWarp, [&](int64_t n) { return AreByWarps(n); });
    return best == 0 ? given : best;
  }

  // Returns whether tcgen05.mma or wgmma computes all gemms by so many threads.
  bool AreByWarpgroups(int64_t threads) const {
    op::LayoutMap layouts = layouts_;
    arith::Analyzer analyzer;
    op::Context ctx{target_, {0, threads}, ir::Expr(), threads, &layouts, &analyzer};
    return std::all_of(gemms_.begin(), gemms_.end(), [&](const ir::GemmNode* gemm) {
      if (target_->has_tcgen05) {
        return op::Tcgen05Lacks(gemm, {0, threads}, layouts, target_).empty();
      }
      return target_->has_wgmma && op::Wgmma()->Obstacle(gemm, &ctx).empty();
    });
  }

  // Returns whether mma.sync computes all gemms by so many threads.
  bool AreByWarps(int64_t threads) const {
    op::Context ctx{target_, {0, threads}, ir::Expr(), threads, nullptr, nullptr};
    return std::all_of(gemms_.begin(), gemms_.end(), [&](const ir::GemmNode* gemm) {
      return op::MmaObstacle(gemm, ctx).empty();
    });
  }

  Target target_;
  op::LayoutMap layouts_;  // of the program
  std::vector<const ir::GemmNode*> gemms_;
};

}  // namespace

ir::Func FitWarps(const ir::Func& func, const Target& target) {
  return func.WithBody(WarpFitter(target).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
