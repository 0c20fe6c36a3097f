// The columns of an epilogue's tiles that form one slice.
#ifndef TILELANG_EPILOGUE_COLUMN_SLICES_H_
#define TILELANG_EPILOGUE_COLUMN_SLICES_H_

#include <cstdint>

namespace tilelang::epilogue {

// In most tiles a slice is one range of columns, with the same number of columns in each tile. A
// tile may use its columns in pairs, j with j + group / 2, as SwiGLU and rotary embeddings do when
// their halves are adjacent. It then has two parts in each slice: the same columns of both halves
// of a group.
struct ColumnSlices {
  int64_t count = 0;
  int64_t paired = 0;  // the width of tiles in two parts; 0: there are none
  int64_t group = 0;   // of their columns, a divisor of the width

  // Returns the number of parts of a slice, for a tile of this width or a loop over so many
  // columns.
  int64_t Parts(int64_t width) const { return width == paired ? 2 : 1; }
  bool Divides(int64_t width) const { return width % (count * Parts(width)) == 0; }
  // The columns of one part of a slice, and the first of them.
  int64_t Columns(int64_t width) const { return width / count / Parts(width); }
  int64_t First(int64_t width, int64_t slice, int64_t part) const;

  struct Place {
    int64_t slice = 0;
    int64_t part = 0;
    bool operator==(const Place&) const = default;
  };
  Place PlaceOf(int64_t width, int64_t column) const;
};

}  // namespace tilelang::epilogue

#endif  // TILELANG_EPILOGUE_COLUMN_SLICES_H_
