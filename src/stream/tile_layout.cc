#include "stream/tile_layout.h"

#include <algorithm>
#include <utility>

namespace tilelang::stream {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

TileLayout::TileLayout(std::vector<TileAxis> axes, int64_t live, int64_t tile, int64_t period,
                       int64_t itemsize)
    : axes_(std::move(axes)), live_(live), tile_(tile), period_(period), itemsize_(itemsize) {
  if (axes_.size() == 1) {
    // A row is a period, or a tile; rows follow each other along an axis of tiles with one row.
    TileAxis& only = axes_[0];
    only.extent = period_ ? period_ : only.tile;
    live_ = CeilDiv(only.extent, only.tile);
    period_ = 0;
    axes_.insert(axes_.begin(), TileAxis{0, 1, 0});
  }
  epochs_of_period_ = CeilDiv(period_, axes_[0].tile);
  tile_strides_.assign(axes_.size(), 1);
  for (size_t d = axes_.size() - 1; d > 0; --d) {
    tile_strides_[d - 1] = tile_strides_[d] * tiles_along(d);
  }
}

int64_t TileLayout::tiles_along(size_t axis) const {
  return CeilDiv(axes_[axis].extent, axes_[axis].tile);
}

RowCursor::RowCursor(const TileLayout& layout, int64_t row)
    : layout_(layout), index_(layout.axes().size() - 1), at_(index_.size()) {
  for (size_t d = index_.size() - 1; d > 0; --d) {
    index_[d] = row % layout.axes()[d].extent;
    row /= layout.axes()[d].extent;
  }
  periods_ = layout.period() ? row / layout.period() : 0;
  index_[0] = row - periods_ * layout.period();
  for (size_t d = 0; d < index_.size(); ++d) Place(d);
}

void RowCursor::Place(size_t axis) {
  const auto [extent, tile, weight] = layout_.axes()[axis];
  int64_t tiles = index_[axis] / tile * layout_.tile_stride(axis);
  if (axis == 0) tiles += periods_ * layout_.epochs_of_period() * layout_.live();
  const int64_t at = tiles * layout_.tile() + index_[axis] % tile * weight;
  offset_ += at - at_[axis];
  at_[axis] = at;
}

int64_t RowCursor::rows_in_tile() const {
  const size_t last = index_.size() - 1;
  const TileAxis& axis = layout_.axes()[last];
  const int64_t in_tile = axis.tile - index_[last] % axis.tile;
  const int64_t end = last ? axis.extent : layout_.period();
  return end ? std::min(in_tile, end - index_[last]) : in_tile;
}

void RowCursor::Advance(int64_t rows) {
  size_t d = index_.size() - 1;
  index_[d] += rows;
  while (d > 0 && index_[d] == layout_.axes()[d].extent) {
    index_[d] = 0;
    Place(d--);
    ++index_[d];
  }
  if (d == 0 && layout_.period() && index_[0] == layout_.period()) {
    index_[0] = 0;
    ++periods_;
  }
  Place(d);
}

}  // namespace tilelang::stream
