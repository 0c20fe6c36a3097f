#include "tiling/persist_blocks.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <string>
#include <vector>

#include "analysis/grid_blocks.h"
#include "analysis/kernel_scope.h"
#include "ir/async.h"
#include "ir/changed_launch.h"
#include "ir/fresh_copy.h"
#include "ir/launch_extent.h"
#include "ir/remark.h"
#include "ir/settings.h"
#include "ir/visitor.h"
#include "op/effect.h"
#include "schedule/shared_bytes.h"
#include "target/warp.h"
#include "tiling/add_parts.h"
#include "tiling/loop_stages.h"
#include "tiling/persistent_plan.h"
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

class BlockPersister : public ir::StmtMutator {
 public:
  BlockPersister(const ir::Func& func, const Target& target) : func_(func), target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    PlainGemm plain = FindPlainGemm(op);
    bool possible = plain.loop != nullptr && op->grid.size() == 2 && ComputesByElement(op, plain);
    if (!possible || analysis::BlocksOf(op) <= target_->sm_count || !TakesMultiprocessor(op) ||
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
    Stmt rest;
    PersistentLimits limits{RowsThatShare(func_, op, plain),
                            func_->attrs.count(ir::kWholeSums) == 0};
    if (known) plan = PlanPersistent(GridOf(op, plain), limits, target_);
    if (plan.tail.IsCut()) rest = LaunchTail(op, plain, grid, *known, plan.tail);
    if (plan.tail.blocks > 1 && !rest.defined()) {
      limits.shares_k = false;
      plan = PlanPersistent(GridOf(op, plain), limits, target_);
      if (plan.tail.IsCut()) rest = LaunchTail(op, plain, grid, *known, plan.tail);
    }
    Expr tiles = rest.defined() ? op::I32(*known - *known % target_->sm_count) : grid.Tiles();
    RemarkPersistence(op, tiles, rest.as<ir::KernelLaunchNode>(), plan);
    TileSequence sequence{target_->sm_count, 1};
    if (plan.shares_loads) sequence = {target_->sm_count / kSharingBlocks, kSharingBlocks};
    Stmt blocks = InSequence(op, sequence, plan.shares_loads ? Expr() : tiles).launch;
    Stmt persistent = WithStages(blocks, plain.loop, count);
    if (plan.shares_loads) persistent = ForBothBlocks(persistent, LoadsToShare(func_, op, plain));
    return rest.defined() ? Overlapping(persistent, rest) : persistent;
  }

 private:
  // Returns whether an SM holds one block at a time, of several warpgroups with registers to spare.
  bool TakesMultiprocessor(const ir::KernelLaunchNode* op) const {
    return op->threads.size() == 1 && analysis::ThreadsOf(op).count > kWarpgroup &&
           HasRegisters(op) && BlocksPerSm(op, target_, schedule::SharedBytes(op)) == 1;
  }

  void RemarkPersistence(const ir::KernelLaunchNode* op, const Expr& tiles,
                         const ir::KernelLaunchNode* rest, const PersistentPlan& plan) const {
    auto known = ir::AsInt(tiles);
    std::string which = known ? "the " + std::to_string(*known) + " tiles" : "the tiles of a call";
    std::string more;
    if (rest != nullptr) {
      int64_t all = analysis::BlocksOf(op);
      TileExtents tile = GridOf(op, FindPlainGemm(op)).tile;
      tile.columns /= plan.tail.parts;
      int64_t blocks = (all - *known) * plan.tail.parts * plan.tail.blocks;
      which = std::to_string(*known) + " of the " + std::to_string(all) + " tiles";
      more = "; another launch of " + std::to_string(blocks) + " blocks computes the other " +
             std::to_string(all - *known);
      if (plan.tail.parts > 1) more += ", cut to " + Text(tile);
      if (plan.tail.blocks > 1) {
        more += ", of which clusters of " + std::to_string(plan.tail.blocks) +
                " blocks share the iterations and add their sums (tl.disable_split_k turns this "
                "off)";
      }
      more += ", so that more multiprocessors have a part of the last wave";
    }
    if (plan.shares_loads) {
      more =
          "; two blocks, a cluster, load tiles of B together, since L2 serves more lines than "
          "their bytes fill";
    }
    Remark(op->span, "tiles",
           "T.Kernel: " + std::to_string(target_->sm_count) + " blocks compute " + which +
               ", as by T.Persistent: the next tile loads while the one before is stored" + more +
               ". The pass option tl.disable_persistent_blocks turns this off");
  }

  // Returns both launches, the second of which begins on SMs that the first one leaves. No block of
  // the second reads what the first stores. It ends after the first, so that what follows in the
  // stream sees the results of both.
  static Stmt Overlapping(const Stmt& persistent, const Stmt& rest) {
    const auto* first = persistent.as<ir::KernelLaunchNode>();
    const auto* second = rest.as<ir::KernelLaunchNode>();
    Stmt lets = ir::GridDependency(false, first->span);
    Stmt waits = ir::GridDependency(true, second->span);
    return ir::Seq({WithBody(first, {lets, first->body}), WithBody(second, {second->body, waits})},
                   first->span);
  }
  static Stmt WithBody(const ir::KernelLaunchNode* op, const std::vector<Stmt>& stmts) {
    return ir::WithBody(op, op::Sequence(stmts, op->span));
  }

  // Returns a launch of the tiles after the last full wave, in parts; null if they stay whole.
  Stmt LaunchTail(const ir::KernelLaunchNode* op, const PlainGemm& plain, const BlockGrid& grid,
                  int64_t all, const TailPlan& plan) const {
    using op::I32;
    if (plain.gemms.size() != 1) return Stmt();
    int64_t columns = GridOf(op, plain).tile.columns;
    TileCut cut = {ir::GemmDim::kN, op->block_vars[0], columns, columns / plan.parts};
    Stmt body = plan.parts > 1 ? TileCutter(func_, op, plain, cut).Body() : op->body;
    if (!body.defined()) return Stmt();
    int64_t rest = all % target_->sm_count;
    ir::Var block("block", ir::dtypes::kInt32, op->span);
    Expr tile = ir::FloorDiv(block, I32(plan.parts)) + I32(all - rest);
    TilePlace place = PlaceOf(tile, grid, PanelOf(op));
    place.column = place.column * I32(plan.parts) + ir::FloorMod(block, I32(plan.parts));
    std::vector<Stmt> stmts = BindBlock(op, place);
    const auto& own = body.as<ir::SeqNode>()->stmts;
    stmts.insert(stmts.end(), own.begin(), own.end());
    Stmt launch =
        ir::FreshCopy().MutateStmt(InOneDimension(op, block, I32(rest * plan.parts), stmts));
    const auto* narrow = launch.as<ir::KernelLaunchNode>();
    PlainGemm of_rest = FindPlainGemm(narrow);
    LoopStages stages = StagesOf(narrow, of_rest, plan.blocks);
    int64_t room = stages.Room(1, target_);
    int64_t count = plan.blocks > 1 ? room : std::max(stages.given, room);
    Stmt staged = WithStages(launch, of_rest.loop, count);
    if (plan.blocks == 1) return staged;
    return WithParts(func_, staged.as<ir::KernelLaunchNode>(), plan.blocks, ir::GemmDim::kN);
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
