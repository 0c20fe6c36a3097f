// Tensor maps: their fields, their 128-byte encoding, and the rows of elements that a box covers.
#ifndef TILELANG_EMULATOR_ASYNC_TENSOR_MAP_H_
#define TILELANG_EMULATOR_ASYNC_TENSOR_MAP_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "emulator/memory/swizzle.h"

namespace tilelang::emulator {

// Element types with the codes of the hardware's encoding (and of tensormap.replace .elemtype).
enum class TensorType : uint8_t {
  kU8,
  kU16,
  kU32,
  kS32,
  kU64,
  kS64,
  kF16,
  kF32,
  kF32Ftz,
  kF64,
  kBf16,
  kU4,
  kU4UnpackU8,  // sixteen 4-bit values, padded to 16 bytes in shared memory
  kU6UnpackU8,  // sixteen 6-bit values, likewise
  kTf32,
  kTf32Ftz,
};

const char* TensorTypeName(TensorType type);
bool IsFloatTensor(TensorType type);

// Dimension 0 is the contiguous one.
struct TensorMap {
  static constexpr int kMaxRank = 5;
  static constexpr int kBytes = 128;

  TensorType type = TensorType::kU8;
  int rank = 1;
  uint64_t address = 0;
  std::array<uint64_t, kMaxRank> dims{1, 1, 1, 1, 1};
  std::array<uint64_t, kMaxRank> strides{};  // bytes; [0] unused
  std::array<uint32_t, kMaxRank> box{1, 1, 1, 1, 1};
  std::array<uint32_t, kMaxRank> element_strides{1, 1, 1, 1, 1};
  int interleave = 0;  // 0 none, 1 16 bytes, 2 32 bytes
  Swizzle swizzle = Swizzle::kNone;
  bool fill_nan = false;

  // The im2col form: box[0] channels of `pixels` pixels, walked inside the bounding box
  // [lower[i], dims[i + 1] - 1 + upper[i]] of the rank - 2 spatial dimensions.
  bool im2col = false;
  std::array<int32_t, 3> lower{};
  std::array<int32_t, 3> upper{};
  uint32_t pixels = 0;

  // Bits of one element in global memory, and bytes of `count` elements in shared memory.
  int ElementBits() const;
  uint32_t SharedBytes(uint32_t count) const;
  // Bytes of a whole box in shared memory, the amount that completes on the mbarrier.
  uint32_t BoxBytes() const;

  // EmulatorError "tensor-map" naming the field and its legal values.
  void Validate() const;
  // The tiled form as the hardware lays it out; im2col fields follow in the part it leaves unused.
  void Encode(uint8_t* bytes) const;
  static TensorMap Decode(const uint8_t* bytes);
};

// A run of elements along dimension 0 that is contiguous in both memories: shared element 0 is at
// `shared_offset` before the swizzle; elements [first, first + count) exist in the tensor, the
// others of the row are out of bounds.
struct TensorRow {
  uint32_t shared_offset;
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

// Moves one row between dense shared form `row` (SharedBytes of the walk's row) and its place in a
// swizzled buffer at shared address `base`.
void ScatterRow(const TensorMap& map, const uint8_t* row, uint32_t bytes, uint32_t base,
                uint32_t offset, uint8_t* shared);
void GatherRow(const TensorMap& map, uint8_t* row, uint32_t bytes, uint32_t base, uint32_t offset,
               const uint8_t* shared);

// Writes elements [first, first + count) of a row from global bytes, and the fill value elsewhere.
void FillRow(const TensorMap& map, const TensorRow& row, uint32_t elements, const uint8_t* global,
             uint8_t* out);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ASYNC_TENSOR_MAP_H_
