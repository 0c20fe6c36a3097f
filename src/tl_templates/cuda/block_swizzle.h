// Orders of walking over the grid that keep neighbouring blocks in the L2 cache.
#pragma once

namespace tl {

// Panels of kPanel rows, walked column by column, alternate panels backward.
template <int kPanel>
TL_DEVICE uint3 swizzle_rows() {
  uint32_t linear = blockIdx.x + gridDim.x * blockIdx.y;
  uint32_t panel_size = kPanel * gridDim.x;
  uint32_t panel = linear / panel_size;
  uint32_t inside = linear % panel_size;
  uint32_t rows = min(static_cast<uint32_t>(kPanel), gridDim.y - panel * kPanel);
  uint32_t column = inside / rows;
  uint3 index;
  index.x = panel % 2 ? gridDim.x - 1 - column : column;
  index.y = panel * kPanel + inside % rows;
  index.z = blockIdx.z;
  return index;
}

// Panels of kPanel columns, walked row by row, alternate panels backward.
template <int kPanel>
TL_DEVICE uint3 swizzle_columns() {
  uint32_t linear = blockIdx.x + gridDim.x * blockIdx.y;
  uint32_t panel_size = kPanel * gridDim.y;
  uint32_t panel = linear / panel_size;
  uint32_t inside = linear % panel_size;
  uint32_t columns = min(static_cast<uint32_t>(kPanel), gridDim.x - panel * kPanel);
  uint32_t row = inside / columns;
  uint3 index;
  index.x = panel * kPanel + inside % columns;
  index.y = panel % 2 ? gridDim.y - 1 - row : row;
  index.z = blockIdx.z;
  return index;
}

}  // namespace tl
