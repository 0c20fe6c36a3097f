// Where the elements of a stream lie in pools of tiles (tilelang/stream/layout.py).
#ifndef TILELANG_STREAM_TILE_LAYOUT_H_
#define TILELANG_STREAM_TILE_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tilelang::stream {

/*! An axis of a stream: its extent, that of a tile, and the distance of neighbours in a tile. */
struct TileAxis {
  int64_t extent;
  int64_t tile;
  int64_t weight;
};

/*!
 * The axes of a stream from the first one on along which a tile has several elements, in the order
 * of arrival. All numbers count elements; positions are relative to the begin of an epoch.
 */
class TileLayout {
 public:
  /*!
   * `live`: tiles of an epoch; `tile`: elements of a tile; `period`: rows of the first axis after
   * which epochs begin anew, or 0. The first axis has no extent unless it is the period.
   */
  TileLayout(std::vector<TileAxis> axes, int64_t live, int64_t tile, int64_t period,
             int64_t itemsize);

  /*! The axes, at least two: the last one is a row, whose elements arrive one after the other. */
  const std::vector<TileAxis>& axes() const { return axes_; }
  const TileAxis& row() const { return axes_.back(); }
  int64_t live() const { return live_; }
  int64_t tile() const { return tile_; }
  int64_t period() const { return period_; }
  int64_t epochs_of_period() const { return epochs_of_period_; }
  int64_t itemsize() const { return itemsize_; }
  /*! Tiles along an axis other than the first. */
  int64_t tiles_along(size_t axis) const;
  /*! Tiles from one to the next along an axis. */
  int64_t tile_stride(size_t axis) const { return tile_strides_[axis]; }

 private:
  std::vector<TileAxis> axes_;
  std::vector<int64_t> tile_strides_;
  int64_t live_, tile_, period_, itemsize_, epochs_of_period_;
};

/*! Walks over the rows of a stream, and tells where the first element of each one lies. */
class RowCursor {
 public:
  RowCursor(const TileLayout& layout, int64_t row);

  /*! The element of the pools, relative to the first tile of the epoch that positions count from.
   */
  int64_t offset() const { return offset_; }
  /*! How many rows from this one on lie in the same tiles, side by side along the last axis but
   * one. */
  int64_t rows_in_tile() const;
  /*! Goes on by `rows`, no more than rows_in_tile(). */
  void Advance(int64_t rows);

 private:
  void Place(size_t axis);

  const TileLayout& layout_;
  std::vector<int64_t> index_, at_;
  int64_t periods_ = 0, offset_ = 0;
};

}  // namespace tilelang::stream

#endif  // TILELANG_STREAM_TILE_LAYOUT_H_
