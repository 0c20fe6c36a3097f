#include "tiling/tile_sequence.h"

#include "analysis/independent_blocks.h"
#include "ir/changed_launch.h"
#include "ir/launch_extent.h"
#include "ir/visitor.h"
#include "op/effect.h"
#include "schedule/tile_loop.h"

namespace tilelang::tiling {

using ir::Expr;
using ir::Stmt;
using op::I32;

namespace {

// Returns the loop over the tiles of a block, number `tile` in each wave of `count`, and what
// stands before it. Blocks that have one tile each need no loop.
std::vector<Stmt> InTurn(const ir::KernelLaunchNode* op, const ir::Var& wave, const Expr& tile,
                         const Expr& tiles, const TilePlace& place, const Expr& count) {
  std::vector<Stmt> body;
  std::vector<Stmt> of_tile = BindBlock(op, place);
  for (const Stmt& s : op->body.as<ir::SeqNode>()->stmts) {
    (s->kind == ir::StmtKind::kAlloc ? body : of_tile).push_back(s);
  }
  Stmt each = op::Sequence(of_tile, op->span);
  auto known = ir::AsInt(tiles);
  if (known && *known == *ir::AsInt(count)) {
    body.push_back(ir::Substitute(each, {{wave, I32(0)}}));
    return body;
  }
  bool whole = known && *known % *ir::AsInt(count) == 0;
  if (!whole) each = ir::If(tile < tiles, each, Stmt(), op->span);
  body.push_back(ir::For(wave, I32(0), ir::CeilDiv(tiles, count), ir::ForKind::kSerial, each,
                         {{schedule::kStaticTiles, true}}, op->span));
  return body;
}

// Returns the grid whose rows are rows of clusters.
BlockGrid ByClusters(BlockGrid grid, int64_t cluster) {
  if (cluster > 1) grid.rows = ir::CeilDiv(grid.rows, I32(cluster));
  return grid;
}

}  // namespace

Expr BlockGrid::Tiles() const {
  Expr tiles = columns * rows;
  for (const Expr& other : others) tiles = tiles * other;
  return tiles;
}

BlockGrid GridOfBlocks(const ir::KernelLaunchNode* op) {
  auto extent = [&](size_t axis) {
    return ir::CastTo(ir::dtypes::kInt32, ir::ExtentInside(op->grid[axis]));
  };
  BlockGrid grid{extent(0), op->grid.size() > 1 ? extent(1) : I32(1), {}};
  for (size_t axis = 2; axis < op->grid.size(); ++axis) grid.others.push_back(extent(axis));
  return grid;
}

TilePlace PlaceOf(const Expr& number, const BlockGrid& grid, int64_t panel) {
  const Expr& columns = grid.columns;
  TilePlace place;
  Expr tile = number;
  if (!grid.others.empty()) {
    Expr rest = ir::FloorDiv(tile, columns * grid.rows);
    tile = ir::FloorMod(tile, columns * grid.rows);
    for (size_t i = 0; i + 1 < grid.others.size(); ++i) {
      place.others.push_back(ir::FloorMod(rest, grid.others[i]));
      rest = ir::FloorDiv(rest, grid.others[i]);
    }
    place.others.push_back(rest);
  }
  if (panel <= 1) {
    place.row = ir::FloorDiv(tile, columns);
    place.column = ir::FloorMod(tile, columns);
    return place;
  }
  Expr of_panel = columns * I32(panel);
  Expr first = ir::FloorDiv(tile, of_panel) * I32(panel);
  Expr rest = ir::FloorMod(tile, of_panel);
  auto rows = ir::AsInt(grid.rows);
  Expr here = rows && *rows % panel == 0 ? I32(panel)
                                         : ir::Max(ir::Min(grid.rows - first, I32(panel)), I32(1));
  place.row = first + ir::FloorMod(rest, here);
  place.column = ir::FloorDiv(rest, here);
  return place;
}

std::vector<Stmt> BindBlock(const ir::KernelLaunchNode* op, const TilePlace& place) {
  std::vector<Stmt> binds;
  auto bind = [&](size_t axis, const Expr& value) {
    const ir::Var& var = op->block_vars[axis];
    binds.push_back(ir::Bind(var, ir::CastTo(var.dtype(), value), op->span));
  };
  bind(0, place.column);
  if (op->grid.size() > 1) bind(1, place.row);
  for (size_t i = 0; i < place.others.size(); ++i) bind(2 + i, place.others[i]);
  return binds;
}

int64_t PanelOf(const ir::KernelLaunchNode* op) {
  auto panel = op->attrs.Get("swizzle_panel");
  return panel ? (*panel).cast<int64_t>() : 0;
}

ir::KernelLaunch WithoutPanels(const ir::KernelLaunchNode* op) {
  auto attrs = op->attrs;
  attrs.erase("swizzle_panel");
  attrs.erase("swizzle_order");
  return ir::WithAttrs(op, attrs);
}

ir::KernelLaunch InOneDimension(const ir::KernelLaunchNode* op, const ir::Var& block,
                                const Expr& blocks, const std::vector<Stmt>& body) {
  return ir::KernelLaunch({block}, {ir::EmptyLike(op->grid, blocks)}, op->thread_vars, op->threads,
                          WithoutPanels(op)->attrs, op::Sequence(body, op->span), op->span);
}

bool CanTakeTurns(const ir::KernelLaunchNode* op, const PlainGemm& plain) {
  auto order = op->attrs.Get("swizzle_order");
  if (order && (*order).cast<ir::String>() != "row") return false;
  bool can = op->body->kind == ir::StmtKind::kSeq && analysis::AreIndependent(op) &&
             HasEqualLoops(op, plain);
  ir::WalkStmts(op->body, [&](const Stmt& s) {
    const auto* alloc = s.as<ir::AllocNode>();
    const auto* fill = s.as<ir::FillNode>();
    can = can && (alloc == nullptr || alloc->buffer.IsShared() || alloc->buffer.IsFragment());
    can = can && (fill == nullptr || fill->dst->buffer.IsFragment());
    return can;
  });
  return can;
}

SequencedLaunch InSequence(const ir::KernelLaunchNode* op, const TileSequence& sequence,
                           const Expr& tiles) {
  const ir::Span& span = op->span;
  int64_t cluster = sequence.cluster;
  BlockGrid grid = ByClusters(GridOfBlocks(op), cluster);
  Expr count = tiles.defined() ? tiles : grid.Tiles();
  Expr clusters = I32(sequence.clusters);
  ir::Var block("block", ir::dtypes::kInt32, span);
  ir::Var wave("wave", ir::dtypes::kInt32, span);
  Expr first = block, rank = I32(0);
  if (cluster > 1) {
    first = ir::FloorDiv(block, I32(cluster));
    rank = ir::FloorMod(block, I32(cluster));
  }
  Expr tile = first + wave * clusters;
  TilePlace place = PlaceOf(tile, grid, (PanelOf(op) + cluster - 1) / cluster);
  if (cluster > 1) place.row = place.row * I32(cluster) + rank;
  std::vector<Stmt> body = InTurn(op, wave, tile, count, place, clusters);
  Expr blocks = ir::AsInt(count) ? clusters : ir::Min(count, clusters);
  if (cluster == 1) return {InOneDimension(op, block, blocks, body), rank};
  ir::KernelLaunch launch = InOneDimension(op, block, blocks * I32(cluster), body);
  return {ir::WithAttr(launch.get(), "cluster_dims", ir::Array<int64_t>{cluster, 1, 1}), rank};
}

}  // namespace tilelang::tiling
