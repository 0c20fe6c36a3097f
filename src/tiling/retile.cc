#include "tiling/retile.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "ir/changed_launch.h"
#include "ir/launch_extent.h"
#include "ir/visitor.h"
#include "tiling/idle_iterations.h"
#include "tiling/tile_cutter.h"

namespace tilelang::tiling {

using ir::Expr;
using ir::Stmt;

namespace {

// Returns the elements that tiles of `from` cover along an axis: as many as the `tensor` of the
// operand has, where this is known; as many as the grid divides, where it is written as their
// number over `from`, rounded up; and all of the last tile.
std::vector<Expr> EndsOf(const Expr& extent, int64_t from, const Expr& tensor) {
  auto of = [&](int64_t value) { return ir::Const(extent.dtype(), value); };
  std::vector<Expr> ends;
  auto tiles = ir::AsInt(extent);
  auto elements = tensor.defined() ? ir::AsInt(tensor) : std::nullopt;
  if (tiles && elements && *elements < *tiles * from) ends.push_back(of(*elements));
  const auto* quotient = extent.as<ir::BinaryNode>();
  bool divides = quotient != nullptr && quotient->Op() == ir::BinaryOp::kFloorDiv &&
                 ir::IsConst(quotient->b, from);
  if (divides) ends.push_back(quotient->a - of(from - 1));
  ends.push_back(extent * of(from));
  return ends;
}

class LoopReplacer : public ir::StmtMutator {
 public:
  LoopReplacer(const ir::ForNode* loop, Stmt other) : loop_(loop), other_(std::move(other)) {}

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::ForNode* op) override {
    return op == loop_ ? other_ : StmtMutator::Rewrite(op);
  }

 private:
  const ir::ForNode* loop_;
  Stmt other_;
};

// Returns how many iterations of `to` elements cover what `extent` iterations of `from` do: up to
// the end of the tensor where that is known.
Expr IterationsOf(const Expr& extent, const Expr& tensor, int64_t from, int64_t to) {
  auto of = [&](int64_t value) { return ir::Const(extent.dtype(), value); };
  auto known = ir::AsInt(extent);
  auto elements = tensor.defined() ? ir::AsInt(tensor) : std::nullopt;
  if (known && elements && CeilDiv(*elements, from) == *known) return of(CeilDiv(*elements, to));
  const auto* quotient = extent.as<ir::BinaryNode>();
  if (quotient != nullptr && quotient->Op() == ir::BinaryOp::kFloorDiv &&
      ir::IsConst(quotient->b, from)) {
    return ir::FloorDiv(quotient->a + of(to - from), of(to));
  }
  return extent * of(from / to);
}

}  // namespace

ir::KernelLaunch WithThreads(const ir::KernelLaunchNode* op, int64_t threads) {
  return ir::KernelLaunch(op->block_vars, op->grid, op->thread_vars,
                          {ir::Const(op->threads[0].dtype(), threads)}, op->attrs, op->body,
                          op->span);
}

Stmt CutTile(const ir::Func& func, const ir::KernelLaunchNode* op, const PlainGemm& plain,
             ir::GemmDim dim, int64_t from, int64_t to, ir::Span* obstacle) {
  // Axes with one block come last, since the body may not use their index any more.
  std::vector<size_t> axes(op->grid.size());
  std::iota(axes.begin(), axes.end(), 0);
  std::stable_partition(axes.begin(), axes.end(),
                        [&](size_t axis) { return !ir::IsConst(op->grid[axis], 1); });
  auto with = [&](const ir::Array<Expr>& grid, const Stmt& body) {
    return ir::KernelLaunch(op->block_vars, grid, op->thread_vars, op->threads, op->attrs, body,
                            op->span);
  };
  for (size_t axis : axes) {
    Expr extent = ir::ExtentInside(op->grid[axis]);
    std::vector<Expr> ends = EndsOf(extent, from, ExtentOfTensor(plain, dim));
    for (const Expr& end : ends) {
      auto known = ir::AsInt(end);
      // All elements of the grid's tiles; of fewer, other tensors may have more.
      bool whole = end.same_as(ends.back()) && known && *known % from == 0 && *known % to == 0;
      TileCut cut = {dim, op->block_vars[axis], from, to, whole ? Expr() : end};
      cut.extends_loop = to % from == 0 && IdlesAfterEnd(func, op, plain.loop, cut.block);
      TileCutter cutter(func, op, plain, cut);
      Stmt body = cutter.Body();
      if (!body.defined()) {
        if (obstacle != nullptr && cutter.obstacle().defined()) *obstacle = cutter.obstacle();
        continue;
      }
      ir::Array<Expr> grid = op->grid;
      Expr tiles = ir::CeilDiv(end, ir::Const(end.dtype(), to));
      grid.Set(axis, ir::EmptyLike(op->grid[axis], tiles));
      return with(grid, body);
    }
  }
  // One tile along the dimension, and no block index says so. Both store what the smaller one has.
  Expr end = ir::Const(ir::dtypes::kInt32, std::min(from, to));
  Stmt body = TileCutter(func, op, plain, {dim, ir::Var(), from, to, end}).Body();
  return body.defined() ? with(op->grid, body) : Stmt();
}

Stmt WithLoop(const ir::KernelLaunchNode* op, const ir::ForNode* loop, const Stmt& other) {
  return ir::WithBody(op, LoopReplacer(loop, other).MutateStmt(op->body));
}

Stmt CutIterations(const ir::Func& func, const ir::KernelLaunchNode* op, const PlainGemm& plain,
                   int64_t from, int64_t to) {
  const ir::ForNode* loop = plain.loop;
  if (!ir::IsConst(loop->min, 0) || from % to != 0) return Stmt();
  TileCut cut = {ir::GemmDim::kN, loop->var, from, to};
  cut.loop = loop;
  TileCutter cutter(func, op, plain, cut);
  Stmt body = cutter.Body();
  // Statements outside of the loop may use no tile of an iteration.
  Stmt none = WithLoop(op, loop, ir::MakeSeq({}, loop->span));
  if (!body.defined() || cutter.Names(none)) return Stmt();
  Expr extent = IterationsOf(loop->extent, ExtentOfTensor(plain, ir::GemmDim::kN), from, to);
  Stmt cut_loop =
      ir::For(loop->var, loop->min, extent, loop->Kind(), body, loop->annotations, loop->span);
  Stmt launch = WithLoop(op, loop, cut_loop);
  const auto* node = launch.as<ir::KernelLaunchNode>();
  return ir::WithBody(node, cutter.WithCutTiles(node->body));
}

Stmt WithTiles(const ir::Func& func, const ir::KernelLaunchNode* op, const TileExtents& from,
               const TileExtents& to, int64_t threads, ir::Span* obstacle) {
  Stmt launch = WithThreads(op, threads);
  auto cut = [&](ir::GemmDim dim, int64_t before, int64_t after) {
    if (before == after || !launch.defined()) return;
    const auto* whole = launch.as<ir::KernelLaunchNode>();
    launch = CutTile(func, whole, FindPlainGemm(whole, Operands::kComputed), dim, before, after,
                     obstacle);
  };
  cut(ir::GemmDim::kN, from.columns, to.columns);
  cut(ir::GemmDim::kM, from.rows, to.rows);
  return launch;
}

std::string Text(const TileExtents& tile) {
  return std::to_string(tile.rows) + " x " + std::to_string(tile.columns);
}

}  // namespace tilelang::tiling
