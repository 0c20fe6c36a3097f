#include "epilogue/column_slices.h"

namespace tilelang::epilogue {

int64_t ColumnSlices::First(int64_t width, int64_t slice, int64_t part) const {
  int64_t columns = Columns(width);
  if (Parts(width) == 1) return slice * columns;
  int64_t in_group = group / 2 / columns;
  return slice / in_group * group + part * (group / 2) + slice % in_group * columns;
}

ColumnSlices::Place ColumnSlices::PlaceOf(int64_t width, int64_t column) const {
  int64_t columns = Columns(width);
  if (Parts(width) == 1) return {column / columns, 0};
  int64_t half = group / 2;
  int64_t in_half = column % half;
  return {column / group * (half / columns) + in_half / columns, column % group / half};
}

}  // namespace tilelang::epilogue
