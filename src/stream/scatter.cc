#include "stream/scatter.h"

#include <algorithm>
#include <cstring>

namespace tilelang::stream {
namespace {

// Bytes of a piece: less takes longer to hand to a thread than to copy.
constexpr int64_t kPieceBytes = 128 << 10;
// Rows that are transposed together, whose elements lie side by side in a tile.
constexpr int64_t kGroup = 16;

template <size_t kBytes>
struct Element {
  std::byte bytes[kBytes];
};

/*! A copy of parts of a row, of `size` bytes each, to tiles that lie `stride` bytes apart. */
using CopyRuns = void (*)(std::byte* target, const std::byte* source, int64_t runs, int64_t size,
                          int64_t stride);

template <size_t kBytes>
void CopyShortRuns(std::byte* target, const std::byte* source, int64_t runs, int64_t,
                   int64_t stride) {
  for (int64_t i = 0; i < runs; ++i) {
    std::memcpy(target + i * stride, source + i * kBytes, kBytes);
  }
}

void CopyLongRuns(std::byte* target, const std::byte* source, int64_t runs, int64_t size,
                  int64_t stride) {
  for (int64_t i = 0; i < runs; ++i) std::memcpy(target + i * stride, source + i * size, size);
}

CopyRuns ChooseCopy(int64_t size) {
  switch (size) {
    case 1:
      return CopyShortRuns<1>;
    case 2:
      return CopyShortRuns<2>;
    case 4:
      return CopyShortRuns<4>;
    case 8:
      return CopyShortRuns<8>;
    case 16:
      return CopyShortRuns<16>;
    case 32:
      return CopyShortRuns<32>;
    case 64:
      return CopyShortRuns<64>;
    default:
      return CopyLongRuns;
  }
}

/*! The copy of a piece of a stream, made for the bytes of an element. */
template <size_t kBytes>
class PieceCopy {
 public:
  PieceCopy(const TileLayout& layout, std::byte* tiles)
      : layout_(layout),
        row_(layout.row()),
        contiguous_(row_.weight == 1),
        transposes_(!contiguous_ && layout.axes()[layout.axes().size() - 2].weight == 1),
        copy_runs_(ChooseCopy(row_.tile * kBytes)),
        tiles_(tiles) {}

  void Run(const std::byte* source, int64_t first, int64_t count) const {
    RowCursor cursor(layout_, first / row_.extent);
    int64_t column = first % row_.extent;
    while (count > 0) {
      std::byte* target = tiles_ + cursor.offset() * int64_t{kBytes};
      int64_t rows = 1, copied = std::min(row_.extent - column, count);
      if (transposes_ && copied == row_.extent) {
        rows = std::min({kGroup, count / row_.extent, cursor.rows_in_tile()});
        copied = rows * row_.extent;
      }
      if (contiguous_) {
        CopyRow(target, source, column, copied);
      } else if (rows > 1) {
        TransposeRows(target, source, rows);
      } else {
        SpreadRow(target, source, column, copied);
      }
      source += copied * kBytes;
      count -= copied;
      column = 0;
      if (count > 0) cursor.Advance(rows);
    }
  }

 private:
  void CopyRow(std::byte* target, const std::byte* source, int64_t column, int64_t count) const {
    const int64_t stride = layout_.tile() * kBytes;
    target += column / row_.tile * stride;
    if (const int64_t within = column % row_.tile; within != 0) {
      const int64_t head = std::min(row_.tile - within, count);
      std::memcpy(target + within * kBytes, source, head * kBytes);
      source += head * kBytes;
      target += stride;
      count -= head;
    }
    const int64_t runs = count / row_.tile;
    copy_runs_(target, source, runs, row_.tile * kBytes, stride);
    const int64_t whole = runs * row_.tile;
    if (whole < count) {
      std::memcpy(target + runs * stride, source + whole * kBytes, (count - whole) * kBytes);
    }
  }

  /*! Copies a part of a row whose elements lie apart in a tile. */
  void SpreadRow(std::byte* target, const std::byte* source, int64_t column, int64_t count) const {
    const int64_t step = row_.weight * kBytes;
    target += column / row_.tile * layout_.tile() * kBytes;
    int64_t within = column % row_.tile;
    while (count > 0) {
      const int64_t run = std::min(row_.tile - within, count);
      for (int64_t i = 0; i < run; ++i) {
        std::memcpy(target + (within + i) * step, source + i * kBytes, kBytes);
      }
      source += run * kBytes;
      count -= run;
      target += layout_.tile() * kBytes;
      within = 0;
    }
  }

  /*! Copies rows that are columns of a tile. */
  void TransposeRows(std::byte* target, const std::byte* source, int64_t rows) const {
    auto from = reinterpret_cast<const Element<kBytes>*>(source);
    auto to = reinterpret_cast<Element<kBytes>*>(target);
    for (int64_t begin = 0; begin < row_.extent; begin += row_.tile, to += layout_.tile()) {
      const int64_t end = std::min(begin + row_.tile, row_.extent);
      for (int64_t column = begin; column < end; ++column) {
        Element<kBytes>* cell = to + (column - begin) * row_.weight;
        if (rows == kGroup) {
          for (int64_t r = 0; r < kGroup; ++r) cell[r] = from[r * row_.extent + column];
        } else {
          for (int64_t r = 0; r < rows; ++r) cell[r] = from[r * row_.extent + column];
        }
      }
    }
  }

  const TileLayout& layout_;
  const TileAxis& row_;
  const bool contiguous_, transposes_;
  const CopyRuns copy_runs_;
  std::byte* const tiles_;
};

template <size_t kBytes>
void ScatterElements(const TileLayout& layout, const std::byte* elements, int64_t first,
                     int64_t count, std::byte* tiles, Threads& threads) {
  const PieceCopy<kBytes> copy(layout, tiles);
  // Pieces end between groups of rows where there are enough of them.
  const int64_t row = layout.row().extent;
  const int64_t smallest = std::max<int64_t>(kPieceBytes / kBytes, 1);
  int64_t size = std::max(smallest, count / (4 * threads.count()) + 1);
  for (int64_t unit : {kGroup * row, row}) {
    if (unit <= size) {
      size = size / unit * unit;
      break;
    }
  }
  const int64_t begin = first - first % row;  // pieces are counted from the begin of a row
  const int64_t pieces = (first + count - begin + size - 1) / size;
  threads.Run(pieces, [&](int64_t i) {
    const int64_t from = std::max(begin + i * size, first);
    const int64_t to = std::min(begin + (i + 1) * size, first + count);
    if (from < to) copy.Run(elements + (from - first) * kBytes, from, to - from);
  });
}

/*! Fills cells of one tile: its coordinates, and the position from which on there are none. */
class TilePadding {
 public:
  TilePadding(const TileLayout& layout, const std::byte* padding, int64_t end, int64_t number,
              std::byte* tile)
      : layout_(layout), padding_(padding), end_(end), tile_(tile), place_(layout.axes().size()) {
    for (size_t d = place_.size() - 1; d > 0; --d) {
      place_[d] = number % layout.tiles_along(d);
      number /= layout.tiles_along(d);
    }
    place_[0] = number;
  }

  void Run() const { Fill(0, 0, 0, false); }

 private:
  void Fill(size_t d, int64_t offset, int64_t position, bool outside) const {
    const TileAxis& axis = layout_.axes()[d];
    int64_t first = place_[d] * axis.tile, end = axis.extent, passed = 0;
    if (d == 0 && layout_.period()) {
      passed = place_[0] / layout_.epochs_of_period() * layout_.period();
      first = place_[0] % layout_.epochs_of_period() * axis.tile;
      end = layout_.period();
    }
    const int64_t extent = axis.extent;
    if (d + 1 == place_.size()) {
      const int64_t begun = position * extent + first;
      const int64_t inside = outside ? 0 : std::clamp<int64_t>(end - first, 0, axis.tile);
      const int64_t from = std::min(inside, std::clamp<int64_t>(end_ - begun, 0, axis.tile));
      for (int64_t i = from; i < axis.tile; ++i) {
        std::memcpy(tile_ + (offset + i * axis.weight) * layout_.itemsize(), padding_,
                    layout_.itemsize());
      }
      return;
    }
    for (int64_t i = 0; i < axis.tile; ++i) {
      const int64_t index = first + i;
      const int64_t next = d ? position * extent + index : passed + index;
      Fill(d + 1, offset + i * axis.weight, next, outside || (end && index >= end));
    }
  }

  const TileLayout& layout_;
  const std::byte* const padding_;
  const int64_t end_;
  std::byte* const tile_;
  std::vector<int64_t> place_;
};

}  // namespace

void Scatter(const TileLayout& layout, const std::byte* elements, int64_t first, int64_t count,
             std::byte* tiles, Threads& threads) {
  switch (layout.itemsize()) {
    case 1:
      return ScatterElements<1>(layout, elements, first, count, tiles, threads);
    case 2:
      return ScatterElements<2>(layout, elements, first, count, tiles, threads);
    case 4:
      return ScatterElements<4>(layout, elements, first, count, tiles, threads);
    case 8:
      return ScatterElements<8>(layout, elements, first, count, tiles, threads);
    default:
      return ScatterElements<16>(layout, elements, first, count, tiles, threads);
  }
}

void Pad(const TileLayout& layout, const std::byte* padding, int64_t position, int64_t begin,
         int64_t end, std::byte* tiles, Threads& threads) {
  threads.Run(end - begin, [&](int64_t i) {
    std::byte* tile = tiles + (begin + i) * layout.tile() * layout.itemsize();
    TilePadding(layout, padding, position, begin + i, tile).Run();
  });
}

}  // namespace tilelang::stream
