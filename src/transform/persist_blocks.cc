#include "transform/persist_blocks.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <string>
#include <vector>

#include "analysis/independent_blocks.h"
#include "analysis/kernel_scope.h"
#include "ir/fresh_copy.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "op/effect.h"
#include "schedule/tile_loop.h"
#include "target/warp.h"
#include "transform/loop_stages.h"
#include "transform/residency.h"
#include "transform/tile_cost.h"
#include "transform/tile_cutter.h"

namespace tilelang::transform {

using ir::Expr;
using ir::Stmt;

namespace {

// The coordinates of a tile: groups of `rows` rows, column by column inside.
struct TilePlace {
  Expr row;
  Expr column;
};
TilePlace PlaceOf(const Expr& tile, int64_t rows_of_grid, int64_t columns, int64_t rows) {
  using op::I32;
  if (rows <= 1) return {ir::FloorDiv(tile, I32(columns)), ir::FloorMod(tile, I32(columns))};
  Expr first = ir::FloorDiv(tile, I32(columns * rows)) * I32(rows);
  Expr rest = ir::FloorMod(tile, I32(columns * rows));
  Expr here = rows_of_grid % rows == 0
                  ? I32(rows)
                  : ir::Max(ir::Min(I32(rows_of_grid) - first, I32(rows)), I32(1));
  return {first + ir::FloorMod(rest, here), ir::FloorDiv(rest, here)};
}

class BlockPersister : public ir::StmtMutator {
 public:
  BlockPersister(const ir::Func& func, const Target& target) : func_(func), target_(target) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    PlainGemm plain = FindPlainGemm(op);
    auto grid = ir::AsInts(op->grid);
    if (plain.loop == nullptr || !grid || grid->size() != 2 || !StoresOnly(op, plain)) return self;
    int64_t tiles = (*grid)[0] * (*grid)[1];
    bool even = ir::AsInt(plain.loop->extent).has_value();
    if (!even || tiles <= target_->sm_count || !TakesMultiprocessor(op) || !CanRepeat(op)) {
      return self;
    }
    auto result = BytesOfResult(op, plain);
    if (!result || !LoadsByTma(func_, op, plain, target_)) return self;
    LoopStages stages = StagesOf(op, plain);
    stages.others += *result;
    if (!stages.Fits(kFewestStages, target_)) return self;
    int64_t count = std::max(kFewestStages, stages.Room(1, target_));
    Stmt rest = Rest(op, plain, *grid);
    int64_t whole = rest.defined() ? tiles - tiles % target_->sm_count : tiles;
    Say(op, whole, tiles, rest.as<ir::KernelLaunchNode>());
    Stmt persistent = WithStages(Persistent(op, *grid, whole), plain.loop, count);
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

  void Say(const ir::KernelLaunchNode* op, int64_t whole, int64_t tiles,
           const ir::KernelLaunchNode* rest) const {
    std::string more;
    if (rest != nullptr) {
      TileExtents tile = GridOf(rest, FindPlainGemm(rest)).tile;
      more = "; another launch of " + std::to_string(*ir::AsInt(rest->grid[0])) +
             " blocks computes the other " + std::to_string(tiles - whole) + ", cut to " +
             std::to_string(tile.rows) + " x " + std::to_string(tile.columns) +
             ", so that more multiprocessors have a part of the last wave";
    }
    Remark(op->span, "tiles",
           "T.Kernel: " + std::to_string(target_->sm_count) + " blocks compute " +
               (rest == nullptr ? "the " : std::to_string(whole) + " of the ") +
               std::to_string(tiles) +
               " tiles, as by T.Persistent: the next tile loads while the one before is stored" +
               more + ". The pass option tl.disable_persistent_blocks turns this off");
  }

  // Binds the indices of a block of the grid.
  static std::vector<Stmt> BindBlock(const ir::KernelLaunchNode* op, const TilePlace& place) {
    auto bind = [&](size_t axis, const Expr& value) {
      const ir::Var& var = op->block_vars[axis];
      return ir::Bind(var, ir::CastTo(var.dtype(), value), op->span);
    };
    return {bind(0, place.column), bind(1, place.row)};
  }
  static TilePlace PlaceIn(const ir::KernelLaunchNode* op, const std::vector<int64_t>& grid,
                           const Expr& tile) {
    auto panel = op->attrs.Get("swizzle_panel");
    return PlaceOf(tile, grid[1], grid[0], panel ? (*panel).cast<int64_t>() : 0);
  }
  // The launch with one dimension of so many blocks.
  static ir::KernelLaunch InOneDimension(const ir::KernelLaunchNode* op, const ir::Var& block,
                                         int64_t blocks, const std::vector<Stmt>& body) {
    auto attrs = op->attrs;
    attrs.erase("swizzle_panel");
    attrs.erase("swizzle_order");
    return ir::KernelLaunch({block}, {op::I32(blocks)}, op->thread_vars, op->threads, attrs,
                            op::Sequence(body, op->span), op->span);
  }

  // Of the first tiles.
  Stmt Persistent(const ir::KernelLaunchNode* op, const std::vector<int64_t>& grid,
                  int64_t tiles) const {
    using op::I32;
    const ir::Span& span = op->span;
    int64_t blocks = target_->sm_count;
    ir::Var block("block", ir::dtypes::kInt32, span);
    ir::Var wave("wave", ir::dtypes::kInt32, span);
    Expr tile = block + wave * I32(blocks);
    std::vector<Stmt> before;
    std::vector<Stmt> of_tile = BindBlock(op, PlaceIn(op, grid, tile));
    for (const Stmt& s : op->body.as<ir::SeqNode>()->stmts) {
      (s->kind == ir::StmtKind::kAlloc ? before : of_tile).push_back(s);
    }
    Stmt each = op::Sequence(of_tile, span);
    if (tiles % blocks != 0) each = ir::If(tile < I32(tiles), each, Stmt(), span);
    before.push_back(ir::For(wave, I32(0), I32((tiles + blocks - 1) / blocks), ir::ForKind::kSerial,
                             each, {{schedule::kStaticTiles, true}}, span));
    return InOneDimension(op, block, blocks, before);
  }

  // A launch of the tiles after the last whole wave, in parts; null where they stay whole.
  Stmt Rest(const ir::KernelLaunchNode* op, const PlainGemm& plain,
            const std::vector<int64_t>& grid) const {
    using op::I32;
    if (plain.gemms.size() != 1) return Stmt();
    TileGrid tiles = GridOf(op, plain);
    int64_t parts = PlanPersistent(tiles, target_).parts;
    if (parts == 1) return Stmt();
    int64_t columns = tiles.tile.columns;
    TileCut cut = {ir::GemmDim::kN, op->block_vars[0], columns, columns / parts};
    Stmt body = TileCutter(func_, op, plain, cut).Body();
    if (!body.defined()) return Stmt();
    int64_t rest = tiles.tiles % target_->sm_count;
    ir::Var block("block", ir::dtypes::kInt32, op->span);
    Expr tile = ir::FloorDiv(block, I32(parts)) + I32(tiles.tiles - rest);
    TilePlace place = PlaceIn(op, grid, tile);
    place.column = place.column * I32(parts) + ir::FloorMod(block, I32(parts));
    std::vector<Stmt> stmts = BindBlock(op, place);
    stmts.push_back(body);
    Stmt launch = ir::FreshCopy().MutateStmt(InOneDimension(op, block, rest * parts, stmts));
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

}  // namespace tilelang::transform
