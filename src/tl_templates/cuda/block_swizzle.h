// Orders of walking over the grid that keep neighbouring blocks in the L2 cache.
#pragma once

namespace tl {

// The column and the row at place `linear` of a walk in panels of kPanel rows, column by column,
// alternate panels backward.
template <int kPanel>
TL_DEVICE uint2 place_in_panels(uint32_t linear, uint32_t columns, uint32_t rows) {
  uint32_t panel_size = kPanel * columns;
  uint32_t panel = linear / panel_size;
  uint32_t inside = linear % panel_size;
  uint32_t height = min(static_cast<uint32_t>(kPanel), rows - panel * kPanel);
  uint32_t column = inside / height;
  uint2 place;
  place.x = panel % 2 ? columns - 1 - column : column;
  place.y = panel * kPanel + inside % height;
  return place;
}

// Clusters of kX by kY blocks walk over the grid in panels of kPanel rows of clusters. A block
// keeps its place in its cluster.
template <int kPanel, int kX = 1, int kY = 1>
TL_DEVICE uint3 swizzle_rows() {
  uint32_t columns = gridDim.x / kX, rows = gridDim.y / kY;
  uint32_t linear = blockIdx.x / kX + columns * (blockIdx.y / kY);
  uint2 place = place_in_panels<kPanel>(linear, columns, rows);
  uint3 index;
  index.x = place.x * kX + blockIdx.x % kX;
  index.y = place.y * kY + blockIdx.y % kY;
  index.z = blockIdx.z;
  return index;
}

// Likewise in panels of kPanel columns, row by row.
template <int kPanel, int kX = 1, int kY = 1>
TL_DEVICE uint3 swizzle_columns() {
  uint32_t columns = gridDim.x / kX, rows = gridDim.y / kY;
  uint32_t linear = blockIdx.x / kX + columns * (blockIdx.y / kY);
  uint2 place = place_in_panels<kPanel>(linear, rows, columns);
  uint3 index;
  index.x = place.y * kX + blockIdx.x % kX;
  index.y = place.x * kY + blockIdx.y % kY;
  index.z = blockIdx.z;
  return index;
}

}  // namespace tl
