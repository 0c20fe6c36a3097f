#include "tiling/persist_blocks.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <string>
#include <unordered_set>
#include <vector>

#include "analysis/independent_blocks.h"
#include "analysis/kernel_scope.h"
#include "ir/fresh_copy.h"
#include "ir/launch_extent.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "op/effect.h"
#include "schedule/tile_loop.h"
#include "target/warp.h"
#include "tiling/loop_stages.h"
#include "tiling/residency.h"
#include "tiling/retile.h"
#include "tiling/share_loads.h"
#include "tiling/tile_cost.h"
#include "tiling/tile_cutter.h"

namespace tilelang::tiling {

using ir::Expr;
using ir::Stmt;

namespace {

constexpr int64_t kSharing = 2;

struct BlockGrid {
  Expr columns;
  Expr rows;
  Expr Tiles() const { return columns * rows; }
};

BlockGrid GridOfBlocks(const ir::KernelLaunchNode* op) {
  auto extent = [&](size_t axis) {
    return ir::CastTo(ir::dtypes::kInt32, ir::ExtentInside(op->grid[axis]));
  };
  return {extent(0), extent(1)};
}

// The coordinates of a tile: groups of `panel` rows, column by column inside.
struct TilePlace {
  Expr row;
  Expr column;
};
TilePlace PlaceOf(const Expr& tile, const BlockGrid& grid, int64_t panel) {
  using op::I32;
  const Expr& columns = grid.columns;
  if (panel <= 1) return {ir::FloorDiv(tile, columns), ir::FloorMod(tile, columns)};
  Expr of_panel = columns * I32(panel);
  Expr first = ir::FloorDiv(tile, of_panel) * I32(panel);
  Expr rest = ir::FloorMod(tile, of_panel);
  auto rows = ir::AsInt(grid.rows);
  Expr here = rows && *rows % panel == 0 ? I32(panel)
                                         : ir::Max(ir::Min(grid.rows - first, I32(panel)), I32(1));
  return {first + ir::FloorMod(rest, here), ir::FloorDiv(rest, here)};
}

// Whether a loop has as many iterations in each block.
bool IsEven(const ir::KernelLaunchNode* op, const ir::ForNode* loop) {
  std::unordered_set<const ir::ffi::Object*> of_block;
  for (const ir::Var& var : op->block_vars) of_block.insert(var.get());
  ir::WalkStmts(op->body, [&](const Stmt& s) {
    if (const auto* bind = s.as<ir::BindNode>()) of_block.insert(bind->var.get());
    return true;
  });
  bool even = true;
  ir::WalkExprs(loop->extent, [&](const Expr& e) {
    even = even && e->kind != ir::ExprKind::kLoad && of_block.count(e.get()) == 0;
    return even;
  });
  return even;
}

class BlockPersister : public ir::StmtMutator {
 public:
  BlockPersister(const ir::Func& func, const Target& target) : func_(func), target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    PlainGemm plain = FindPlainGemm(op);
    bool possible = plain.loop != nullptr && op->grid.size() == 2 && StoresOnly(op, plain);
    if (!possible || !IsEven(op, plain.loop) || BlocksOf(op) <= target_->sm_count ||
        !TakesMultiprocessor(op) || !CanRepeat(op)) {
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
    Stmt rest = plan.parts > 1 ? Rest(op, plain, grid, *known, plan.parts) : Stmt();
    Expr tiles = rest.defined() ? op::I32(*known - *known % target_->sm_count) : grid.Tiles();
    Say(op, tiles, rest.as<ir::KernelLaunchNode>(), plan.shares_loads);
    Stmt blocks = plan.shares_loads ? SharingLoads(op, grid) : Persistent(op, grid, tiles);
    Stmt persistent = WithStages(blocks, plain.loop, count);
    if (plan.shares_loads) persistent = ForBothBlocks(persistent, LoadsToShare(func_, op, plain));
    return rest.defined() ? ir::Seq({persistent, rest}, op->span) : persistent;
  }

 private:
  // One block at a time, of several warpgroups with registers to spare.
  bool TakesMultiprocessor(const ir::KernelLaunchNode* op) const {
    return op->threads.size() == 1 && analysis::ThreadsOf(op).count > kWarpgroup &&
           HasRegisters(op) && BlocksPerSm(op, target_, SharedBytes(op)) == 1;
  }

  // Tiles one after another give what blocks would: nothing lasts from the beginning of a block but
  // what it fills, and none sees the others.
  static bool CanRepeat(const ir::KernelLaunchNode* op) {
    auto order = op->attrs.Get("swizzle_order");
    if (order && (*order).cast<ir::String>() != "row") return false;
    bool can = analysis::AreIndependent(op);
    ir::WalkStmts(op->body, [&](const Stmt& s) {
      const auto* alloc = s.as<ir::AllocNode>();
      const auto* fill = s.as<ir::FillNode>();
      can = can && (alloc == nullptr || alloc->buffer.IsShared() || alloc->buffer.IsFragment());
      can = can && (fill == nullptr || fill->dst->buffer.IsFragment());
      return can;
    });
    return can;
  }

  void Say(const ir::KernelLaunchNode* op, const Expr& tiles, const ir::KernelLaunchNode* rest,
           bool shares_loads) const {
    auto known = ir::AsInt(tiles);
    std::string which = known ? "the " + std::to_string(*known) + " tiles" : "the tiles of a call";
    std::string more;
    if (rest != nullptr) {
      int64_t all = BlocksOf(op);
      TileExtents tile = GridOf(rest, FindPlainGemm(rest)).tile;
      which = std::to_string(*known) + " of the " + std::to_string(all) + " tiles";
      more = "; another launch of " + std::to_string(*ir::AsInt(rest->grid[0])) +
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

  // Binds the indices of a block of the grid.
  static std::vector<Stmt> BindBlock(const ir::KernelLaunchNode* op, const TilePlace& place) {
    auto bind = [&](size_t axis, const Expr& value) {
      const ir::Var& var = op->block_vars[axis];
      return ir::Bind(var, ir::CastTo(var.dtype(), value), op->span);
    };
    return {bind(0, place.column), bind(1, place.row)};
  }
  static TilePlace PlaceIn(const ir::KernelLaunchNode* op, const BlockGrid& grid,
                           const Expr& tile) {
    return PlaceOf(tile, grid, PanelOf(op));
  }
  static int64_t PanelOf(const ir::KernelLaunchNode* op) {
    auto panel = op->attrs.Get("swizzle_panel");
    return panel ? (*panel).cast<int64_t>() : 0;
  }
  // The launch with one dimension of so many blocks.
  static ir::KernelLaunch InOneDimension(const ir::KernelLaunchNode* op, const ir::Var& block,
                                         const Expr& blocks, const std::vector<Stmt>& body) {
    auto attrs = op->attrs;
    attrs.erase("swizzle_panel");
    attrs.erase("swizzle_order");
    return ir::KernelLaunch({block}, {blocks}, op->thread_vars, op->threads, attrs,
                            op::Sequence(body, op->span), op->span);
  }

  // Of the first tiles.
  Stmt Persistent(const ir::KernelLaunchNode* op, const BlockGrid& grid, const Expr& tiles) const {
    using op::I32;
    const ir::Span& span = op->span;
    Expr blocks = I32(target_->sm_count);
    ir::Var block("block", ir::dtypes::kInt32, span);
    ir::Var wave("wave", ir::dtypes::kInt32, span);
    Expr tile = block + wave * blocks;
    std::vector<Stmt> body = InTurn(op, wave, tile, tiles, PlaceIn(op, grid, tile), blocks);
    if (!ir::AsInt(tiles)) {
      blocks = ir::EmptyLike(op->grid[0], ir::EmptyLike(op->grid[1], ir::Min(tiles, blocks)));
    }
    return InOneDimension(op, block, blocks, body);
  }

  // Of all tiles, by clusters of two blocks for two tiles one below the other. Where their rows are
  // an odd number, the last one has none.
  Stmt SharingLoads(const ir::KernelLaunchNode* op, const BlockGrid& grid) const {
    using op::I32;
    Expr two = I32(kSharing);
    Expr clusters = I32(target_->sm_count / kSharing);
    ir::Var block("block", ir::dtypes::kInt32, op->span);
    ir::Var wave("wave", ir::dtypes::kInt32, op->span);
    Expr pair = ir::FloorDiv(block, two) + wave * clusters;
    BlockGrid pairs = {grid.columns, I32((*ir::AsInt(grid.rows) + 1) / kSharing)};
    TilePlace place = PlaceOf(pair, pairs, (PanelOf(op) + 1) / kSharing);
    place.row = place.row * two + ir::FloorMod(block, two);
    std::vector<Stmt> body = InTurn(op, wave, pair, pairs.Tiles(), place, clusters);
    ir::KernelLaunch launch = InOneDimension(op, block, I32(target_->sm_count), body);
    auto attrs = launch->attrs;
    attrs.Set("cluster_dims", ir::Array<int64_t>{kSharing, 1, 1});
    return ir::KernelLaunch(launch->block_vars, launch->grid, launch->thread_vars, launch->threads,
                            attrs, launch->body, op->span);
  }

  // The loop over the tiles of a block, number `tile` in each wave of `count`, and what stands
  // before it.
  static std::vector<Stmt> InTurn(const ir::KernelLaunchNode* op, const ir::Var& wave,
                                  const Expr& tile, const Expr& tiles, const TilePlace& place,
                                  const Expr& count) {
    std::vector<Stmt> body;
    std::vector<Stmt> of_tile = BindBlock(op, place);
    for (const Stmt& s : op->body.as<ir::SeqNode>()->stmts) {
      (s->kind == ir::StmtKind::kAlloc ? body : of_tile).push_back(s);
    }
    Stmt each = op::Sequence(of_tile, op->span);
    auto known = ir::AsInt(tiles);
    bool whole = known && *known % *ir::AsInt(count) == 0;
    if (!whole) each = ir::If(tile < tiles, each, Stmt(), op->span);
    body.push_back(ir::For(wave, op::I32(0), ir::CeilDiv(tiles, count), ir::ForKind::kSerial, each,
                           {{schedule::kStaticTiles, true}}, op->span));
    return body;
  }

  // A launch of the tiles after the last whole wave, in parts; null where they stay whole.
  Stmt Rest(const ir::KernelLaunchNode* op, const PlainGemm& plain, const BlockGrid& grid,
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
    TilePlace place = PlaceIn(op, grid, tile);
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
