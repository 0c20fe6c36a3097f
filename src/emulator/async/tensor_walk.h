// The rows of elements that a box of a tensor map covers, and their moves.
#ifndef TILELANG_EMULATOR_ASYNC_TENSOR_WALK_H_
#define TILELANG_EMULATOR_ASYNC_TENSOR_WALK_H_

#include <cstdint>
#include <span>
#include <vector>

#include "emulator/async/tensor_map.h"

namespace tilelang::emulator {

// A run of elements that is contiguous in both memories, along dimension 0 or inside a slice of an
// interleaved map: element 0 is at `offset` of the rows as one dense block; elements
// [first, first + count) exist in the tensor, the others of the row are out of bounds.
struct TensorRow {
  uint32_t offset;
  uint64_t address;  // of element `first`; undefined if count is 0
  uint32_t first;
  uint32_t count;
};

struct TensorWalk {
  uint32_t row_elements;
  std::vector<TensorRow> rows;
};

// Rows of the box at `coordinates` (rank values, innermost first) of a tiled map.
TensorWalk WalkTile(const TensorMap& map, std::span<const int32_t> coordinates);
// Rows of tile::gather4 and tile::scatter4: coordinates are {column, row0, row1, row2, row3}.
TensorWalk WalkGather(const TensorMap& map, std::span<const int32_t> coordinates);
// Rows of an im2col map; `offsets` are the rank - 2 filter offsets (empty for none).
TensorWalk WalkIm2col(const TensorMap& map, std::span<const int32_t> coordinates,
                      std::span<const uint16_t> offsets);

// The same of im2col::w, along dimension W and then the next image: the map's pixels, and `halo`
// more behind them on the line. `shift` moves pixels and bounding box. EmulatorError "unsupported"
// for a halo of pixels on several lines.
TensorWalk WalkIm2colWide(const TensorMap& map, std::span<const int32_t> coordinates, int halo,
                          int shift);

// Moves `bytes` bytes of rows between the dense block and their places in shared memory, from
// address `base` on.
void ScatterRows(const TensorMap& map, const uint8_t* rows, uint32_t bytes, uint32_t base,
                 uint8_t* shared);
void GatherRows(const TensorMap& map, uint8_t* rows, uint32_t bytes, uint32_t base,
                const uint8_t* shared);
// The 16-byte units of shared memory that the rows take; empty if they are one run from `base` on.
std::vector<uint32_t> SparseUnits(const TensorMap& map, uint32_t bytes, uint32_t base);

// Writes elements [first, first + count) of a row from global bytes, and the fill value elsewhere.
void FillRow(const TensorMap& map, const TensorRow& row, uint32_t elements, const uint8_t* global,
             uint8_t* out);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ASYNC_TENSOR_WALK_H_
