#include "tiling/fit_blocks.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <string>

#include "analysis/grid_blocks.h"
#include "analysis/kernel_scope.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "op/gemm_wgmma.h"
#include "target/warp.h"
#include "tiling/loop_stages.h"
#include "tiling/residency.h"
#include "tiling/retile.h"

namespace tilelang::tiling {

using ir::Stmt;

namespace {

class BlockFitter : public ir::StmtMutator {
 public:
  BlockFitter(const ir::Func& func, const Target& target) : func_(func), target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    plain_ = FindPlainGemm(op);
    bool possible =
        plain_.loop != nullptr && op->threads.size() == 1 && LoadsByTma(func_, op, plain_, target_);
    if (!possible) return ir::ffi::GetRef<Stmt>(op);
    threads_ = analysis::ThreadsOf(op);
    LoopStages stages = StagesOf(op, plain_);
    Stmt shared = ShareRows(op);
    Stmt narrow = Narrow(shared.as<ir::KernelLaunchNode>(), stages);
    return Fill(narrow.as<ir::KernelLaunchNode>(), stages);
  }

 private:
  // Returns whether `warpgroups` warpgroups can share every result.
  bool DivideRows(int64_t warpgroups) const {
    return std::all_of(plain_.gemms.begin(), plain_.gemms.end(),
                       [&](const ir::GemmNode* gemm) { return op::DividesRows(gemm, warpgroups); });
  }

  // Returns the launch with two warpgroups, where a multiprocessor has one block at most: one alone
  // leaves the tensor core idle between its gemms.
  Stmt ShareRows(const ir::KernelLaunchNode* op) const {
    if (threads_.count != kWarpgroup || !DivideRows(2) ||
        analysis::BlocksOf(op) > target_->sm_count) {
      return ir::ffi::GetRef<Stmt>(op);
    }
    Remark(op->span, "threads",
           "T.Kernel: 256 threads instead of 128 compute a block: the grid has a block for each "
           "multiprocessor at most, and one warpgroup issues while the other multiplies. The pass "
           "option tl.disable_block_fitting turns this off");
    return WithThreads(op, 2 * kWarpgroup);
  }

  // Returns the launch with one warpgroup, where two blocks then have room.
  Stmt Narrow(const ir::KernelLaunchNode* op, const LoopStages& stages) const {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    bool possible = threads_.count == 2 * kWarpgroup && DivideRows(1) &&
                    analysis::BlocksOf(op) > target_->sm_count;
    if (!possible || stages.Room(2, target_) < std::min(kFewestStages, stages.given)) return self;
    Stmt narrow = WithThreads(op, kWarpgroup);
    const auto* launch = narrow.as<ir::KernelLaunchNode>();
    if (BlocksPerSm(op, target_, 0) > 1) return self;
    if (BlocksPerSm(launch, target_, 0) < 2) return self;
    Remark(op->span, "threads",
           "T.Kernel: 128 threads instead of 256 compute a block: their registers hold its "
           "fragments, and two such blocks with a warp each that loads fit a multiprocessor, of "
           "which one stores or begins while the other multiplies. The pass option "
           "tl.disable_block_fitting turns this off");
    return narrow;
  }

  // Returns the launch with as many stages as have room.
  Stmt Fill(const ir::KernelLaunchNode* op, const LoopStages& stages) const {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    int64_t most = BlocksPerSm(op, target_, 0);
    int64_t blocks = std::min(most, BlocksPerSm(op, target_, stages.Bytes(stages.given)));
    bool fewer = blocks == 1 && most >= 2 && stages.Room(2, target_) >= kFewestStages;
    int64_t count =
        fewer ? stages.Room(2, target_) : std::max(stages.given, stages.Room(blocks, target_));
    if (count == stages.given) return self;
    std::string text = "T.Pipelined: " + std::to_string(count) + " stages instead of " +
                       std::to_string(stages.given) + ": " +
                       (fewer ? "two blocks of so much shared memory fit a multiprocessor"
                              : "shared memory has room for them");
    Remark(plain_.loop->span, "pipeline",
           text + ". The pass option tl.disable_block_fitting turns this off");
    return WithStages(self, plain_.loop, count);
  }

  ir::Func func_;
  Target target_;
  PlainGemm plain_;
  analysis::LaunchThreads threads_{ir::Expr(), 0};
};

}  // namespace

ir::Func FitBlocks(const ir::Func& func, const Target& target) {
  if (!target->has_tma || target->has_tcgen05) return func;
  return func.WithBody(BlockFitter(func, target).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
