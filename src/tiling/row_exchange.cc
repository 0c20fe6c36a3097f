#include "tiling/row_exchange.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "layout/layout.h"
#include "memory/plan_shared_memory.h"
#include "op/effect.h"

namespace tilelang::tiling {

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Region;
using ir::Stmt;
using op::I32;

namespace {

constexpr const char* kShared = "shared.dyn";

Expr Number(double value) { return ir::Const(ir::dtypes::kFloat32, value); }

// Returns the column of an element, `at`, among those that blocks send.
Expr ColumnOf(const DividedTile& tile, const Array<Expr>& at) {
  return at.size() == 1 ? I32(tile.column) : at[1] + I32(tile.column);
}

}  // namespace

double LowestMaximum(double scale) {
  constexpr float kLeast = std::numeric_limits<float>::lowest();
  return scale <= 1 ? kLeast : std::nextafter(static_cast<float>(kLeast / scale), 0.0F);
}

RowExchange::RowExchange(const PeerBlocks& peers, const analysis::RunningSoftmax& softmax,
                         std::vector<DividedTile> sums, DividedTile maxima, double begin,
                         ir::Span span)
    : peers_(peers),
      softmax_(softmax),
      sums_(std::move(sums)),
      maxima_(std::move(maxima)),
      begin_(begin),
      span_(std::move(span)),
      rows_(*ir::AsInt(maxima_.own->shape[0])) {
  int64_t columns = maxima_.column + 1;
  ir::Map<ir::String, ir::Any> late = {{memory::kOverlays, true}};
  sent_ = Tile("sent", {peers_.parts(), columns, rows_}, kShared, late);
  for (int64_t d = 1; d < peers_.parts(); ++d) {
    received_.push_back(Tile("received", {columns, rows_}, kShared));
  }
  for (int64_t d = 0; d < peers_.parts(); ++d) {
    factors_.push_back(Tile("factor", {rows_}, "local.fragment"));
  }
  merged_ = Tile("merged", {columns, rows_}, kShared, late);
  gathered_ = Tile("gathered", {peers_.parts(), columns, rows_}, kShared);
}

Buffer RowExchange::Tile(const char* name, const std::vector<int64_t>& shape, const char* scope,
                         const ir::Map<ir::String, ir::Any>& attrs) const {
  Array<Expr> extents;
  for (int64_t extent : shape) extents.push_back(I32(extent));
  return Buffer(name, ir::dtypes::kFloat32, extents, {}, scope, attrs, span_);
}

std::vector<DividedTile> RowExchange::Tiles() const {
  std::vector<DividedTile> tiles = sums_;
  tiles.push_back(maxima_);
  return tiles;
}

std::vector<Stmt> RowExchange::Allocations(bool gathers) const {
  std::vector<Buffer> tiles = received_;
  tiles.insert(tiles.end(), factors_.begin(), factors_.end());
  tiles.push_back(sent_);
  std::vector<Stmt> allocs = {peers_.AllocateBarriers()};
  if (gathers) {
    allocs.push_back(peers_.AllocateBarrierOfLeader());
    tiles.insert(tiles.end(), {merged_, gathered_});
  }
  for (const Buffer& tile : tiles) allocs.push_back(ir::Alloc(tile, span_));
  return allocs;
}

ir::Map<Buffer, ir::Any> RowExchange::Layouts(bool gathers) const {
  std::vector<Buffer> tiles = received_;
  tiles.push_back(sent_);
  if (gathers) tiles.insert(tiles.end(), {merged_, gathered_});
  ir::Map<Buffer, ir::Any> layouts;
  for (const Buffer& tile : tiles) {
    layouts.Set(tile, layout::Layout::RowMajor(*ir::AsInts(tile->shape)));
  }
  return layouts;
}

template <typename F>
Stmt RowExchange::ForElements(const Buffer& tile, F each) const {
  ir::Var i("i", ir::dtypes::kInt32, span_), j("j", ir::dtypes::kInt32, span_);
  if (tile->shape.size() == 1) {
    return ir::ParallelFor({i}, tile->shape, each(Array<Expr>{i}), {}, span_);
  }
  return ir::ParallelFor({j, i}, {tile->shape[1], tile->shape[0]}, each(Array<Expr>{i, j}), {},
                         span_);
}

// Returns the rows that a rank completes in a tile that has all rows by rank.
Region RowExchange::RowsOf(const Buffer& tile, const Expr& rank) const {
  return {tile, {rank, I32(0), I32(0)}, {I32(1), tile->shape[1], tile->shape[2]}};
}

// Returns the place of an element of a part in such a tile.
Array<Expr> RowExchange::PlaceInAll(const DividedTile& tile, const Array<Expr>& at) const {
  return {ir::FloorDiv(at[0], I32(rows_)), ColumnOf(tile, at), ir::FloorMod(at[0], I32(rows_))};
}

// Returns an element of the part of the block so many ranks before; 0: of the own part.
Expr RowExchange::Element(int64_t distance, const DividedTile& tile, const Array<Expr>& at) const {
  Expr column = ColumnOf(tile, at);
  if (distance == 0) return ir::Load(sent_, {peers_.part(), column, at[0]}, span_);
  return ir::Load(received_[distance - 1], {column, at[0]}, span_);
}

void RowExchange::Exchange(std::vector<Stmt>* stmts) const {
  for (const DividedTile& tile : Tiles()) {
    stmts->push_back(ForElements(tile.part, [&](const Array<Expr>& at) {
      return ir::Store(sent_, PlaceInAll(tile, at), ir::Load(tile.part, at, span_), span_);
    }));
  }
  for (int64_t d = 1; d < peers_.parts(); ++d) {
    stmts->push_back(peers_.Send(RowsOf(sent_, peers_.Rank(d)), received_[d - 1], d));
  }
  for (int64_t d = 1; d < peers_.parts(); ++d) stmts->push_back(peers_.Wait(d));
  MergeMaxima(stmts);
  for (const DividedTile& sum : sums_) stmts->push_back(Merge(sum));
}

void RowExchange::MergeMaxima(std::vector<Stmt>* stmts) const {
  const Buffer& own = maxima_.own;
  stmts->push_back(ForElements(own, [&](const Array<Expr>& at) {
    Expr greatest = Element(0, maxima_, at);
    for (int64_t d = 1; d < peers_.parts(); ++d) {
      greatest = ir::Max(greatest, Element(d, maxima_, at));
    }
    return ir::Store(own, at, greatest, span_);
  }));
  for (int64_t d = 0; d < peers_.parts(); ++d) {
    stmts->push_back(ForElements(own, [&](const Array<Expr>& at) {
      Expr below = Element(d, maxima_, at) - ir::Load(own, at, span_);
      Expr factor = ir::Call(ir::dtypes::kFloat32, softmax_.exponential,
                             {below * Number(softmax_.scale)}, {}, span_);
      return ir::Store(factors_[d], at, factor, span_);
    }));
  }
  if (std::isfinite(begin_)) return;
  stmts->push_back(ForElements(own, [&](const Array<Expr>& at) {
    Expr greatest = ir::Load(own, at, span_);
    Expr none = greatest <= Number(LowestMaximum(softmax_.scale));
    return ir::Store(own, at, ir::Select(none, Number(begin_), greatest, span_), span_);
  }));
}

Stmt RowExchange::Merge(const DividedTile& sum) const {
  return ForElements(sum.own, [&](const Array<Expr>& at) {
    Expr total;
    for (int64_t d = 0; d < peers_.parts(); ++d) {
      Expr product = Element(d, sum, at) * ir::Load(factors_[d], {at[0]}, span_);
      total = total.defined() ? total + product : product;
    }
    return ir::Store(sum.own, at, total, span_);
  });
}

void RowExchange::Gather(std::vector<Stmt>* stmts) const {
  for (const DividedTile& tile : Tiles()) {
    stmts->push_back(ForElements(tile.own, [&](const Array<Expr>& at) {
      return ir::Store(merged_, {ColumnOf(tile, at), at[0]}, ir::Load(tile.own, at, span_), span_);
    }));
  }
  stmts->push_back(peers_.SendToLeader(merged_, RowsOf(gathered_, peers_.part())));
}

void RowExchange::TakeAll(std::vector<Stmt>* stmts) const {
  stmts->push_back(peers_.WaitForAll());
  for (const DividedTile& tile : Tiles()) {
    stmts->push_back(ForElements(tile.part, [&](const Array<Expr>& at) {
      return ir::Store(tile.part, at, ir::Load(gathered_, PlaceInAll(tile, at), span_), span_);
    }));
  }
}

}  // namespace tilelang::tiling
