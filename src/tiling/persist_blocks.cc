#include "tiling/persist_blocks.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <string>
#include <vector>

#include "analysis/kernel_scope.h"
#include "ir/fresh_copy.h"
#include "ir/launch_extent.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "op/effect.h"
#include "schedule/shared_bytes.h"
#include "target/warp.h"
#include "tiling/loop_stages.h"
#include "tiling/residency.h"
#include "tiling/retile.h"
#include "tiling/share_loads.h"
#include "tiling/tile_cost.h"
#include "tiling/tile_cutter.h"
#include "tiling/tile_sequence.h"

namespace tilelang::tiling {

using ir::Expr;
using ir::Stmt;

namespace {

constexpr int64_t kSharing = 2;

class BlockPersister : public ir::StmtMutator {
 public:
  BlockPersister(const ir::Func& func, const Target& target) : func_(func), target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    PlainGemm plain = FindPlainGemm(op);
    bool possible = plain.loop != nullptr && op->grid.size() == 2 && ComputesByElement(op, plain);
    if (!possible || BlocksOf(op) <= target_->sm_count || !TakesMultiprocessor(op) ||
        !CanTakeTurns(op, plain)) {
      return self;
    }
    auto result = BytesOfResult(op, plain);
    if (!result || !LoadsByTma(func_, op, plain, target_)) return self;
    LoopStages stages = StagesOf(op, plain);
    stages.others += *result;
    if (!stages.Fits(kFewestStages, target_)) return self;
    int64_t count = std::max(kFewestStages, stages.Room(1, target_));
    BlockGrid grid = GridOfBlocks(op);
    auto known = ir::AsInt(grid.Tiles());
    PersistentPlan plan;
    if (known) plan = PlanPersistent(GridOf(op, plain), RowsThatShare(func_, op, plain), target_);
    Stmt rest = plan.parts > 1 ? LaunchTail(op, plain, grid, *known, plan.parts) : Stmt();
    Expr tiles = rest.defined() ? op::I32(*known - *known % target_->sm_count) : grid.Tiles();
    RemarkPersistence(op, tiles, rest.as<ir::KernelLaunchNode>(), plan.shares_loads);
    TileSequence sequence{target_->sm_count, 1};
    if (plan.shares_loads) sequence = {target_->sm_count / kSharing, kSharing};
    Stmt blocks = InSequence(op, sequence, plan.shares_loads ? Expr() : tiles).launch;
    Stmt persistent = WithStages(blocks, plain.loop, count);
    if (plan.shares_loads) persistent = ForBothBlocks(persistent, LoadsToShare(func_, op, plain));
    return rest.defined() ? ir::Seq({persistent, rest}, op->span) : persistent;
  }

 private:
  // Returns whether an SM holds one block at a time, of several warpgroups with registers to spare.
  bool TakesMultiprocessor(const ir::KernelLaunchNode* op) const {
    return op->threads.size() == 1 && analysis::ThreadsOf(op).count > kWarpgroup &&
           HasRegisters(op) && BlocksPerSm(op, target_, schedule::SharedBytes(op)) == 1;
  }

  void RemarkPersistence(const ir::KernelLaunchNode* op, const Expr& tiles,
                         const ir::KernelLaunchNode* rest, bool shares_loads) const {
    auto known = ir::AsInt(tiles);
    std::string which = known ? "the " + std::to_string(*known) + " tiles" : "the tiles of a call";
    std::string more;
    if (rest != nullptr) {
      int64_t all = BlocksOf(op);
      TileExtents tile = GridOf(rest, FindPlainGemm(rest)).tile;
      which = std::to_string(*known) + " of the " + std::to_string(all) + " tiles";
      more = "; another launch of " + std::to_string(*ir::AsInt(ir::ExtentInside(rest->grid[0]))) +
             " blocks computes the other " + std::to_string(all - *known) + ", cut to " +
             Text(tile) + ", so that more multiprocessors have a part of the last wave";
    }
    if (shares_loads) {
      more =
          "; two blocks, a cluster, load tiles of B together, since L2 serves more lines than "
          "their bytes fill";
    }
    Remark(op->span, "tiles",
           "T.Kernel: " + std::to_string(target_->sm_count) + " blocks compute " + which +
               ", as by T.Persistent: the next tile loads while the one before is stored" + more +
               ". The pass option tl.disable_persistent_blocks turns this off");
  }

  // Returns a launch of the tiles after the last full wave, in parts; null if they stay whole.
  Stmt LaunchTail(const ir::KernelLaunchNode* op, const PlainGemm& plain, const BlockGrid& grid,
                  int64_t all, int64_t parts) const {
    using op::I32;
    if (plain.gemms.size() != 1) return Stmt();
    int64_t columns = GridOf(op, plain).tile.columns;
    TileCut cut = {ir::GemmDim::kN, op->block_vars[0], columns, columns / parts};
    Stmt body = TileCutter(func_, op, plain, cut).Body();
    if (!body.defined()) return Stmt();
    int64_t rest = all % target_->sm_count;
    ir::Var block("block", ir::dtypes::kInt32, op->span);
    Expr tile = ir::FloorDiv(block, I32(parts)) + I32(all - rest);
    TilePlace place = PlaceOf(tile, grid, PanelOf(op));
    place.column = place.column * I32(parts) + ir::FloorMod(block, I32(parts));
    std::vector<Stmt> stmts = BindBlock(op, place);
    stmts.push_back(body);
    Stmt launch = ir::FreshCopy().MutateStmt(InOneDimension(op, block, I32(rest * parts), stmts));
    const auto* narrow = launch.as<ir::KernelLaunchNode>();
    PlainGemm of_rest = FindPlainGemm(narrow);
    LoopStages stages = StagesOf(narrow, of_rest);
    return WithStages(launch, of_rest.loop, std::max(stages.given, stages.Room(1, target_)));
  }

  ir::Func func_;
  Target target_;
};

}  // namespace

ir::Func PersistBlocks(const ir::Func& func, const Target& target) {
  if (!target->has_wgmma || !target->has_tma) return func;
  return func.WithBody(BlockPersister(func, target).MutateStmt(func->body));
}

}  // namespace tilelang::tiling
