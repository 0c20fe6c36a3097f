// Tensor maps: their fields, the rules for these, and their 128-byte encoding.
#ifndef TILELANG_EMULATOR_ASYNC_TENSOR_MAP_H_
#define TILELANG_EMULATOR_ASYNC_TENSOR_MAP_H_

#include <array>
#include <cstdint>

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

// Says which bytes lie together in a tensor: elements of dimension 0, or slices of channels.
enum class Interleave : uint8_t { kNone, k16B, k32B };

// A decoded tensor map. Dimension 0 is the contiguous one. With an interleave its positions are
// slices of channels: a tensor NC/8HWC8 has the dimensions W, H, C, N, in which positions along W
// are 16 (or 32) bytes apart and C counts slices. A copy takes one slice of channels, whatever the
// box says of C.
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
  Interleave interleave = Interleave::kNone;
  Swizzle swizzle = Swizzle::kNone;
  bool fill_nan = false;

  // The im2col form: box[0] channels of `pixels` pixels, walked inside the bounding box
  // [lower[i], dims[i + 1] - 1 + upper[i]] of the rank - 2 spatial dimensions.
  bool im2col = false;
  std::array<int32_t, 3> lower{};
  std::array<int32_t, 3> upper{};
  uint32_t pixels = 0;

  bool Interleaved() const { return interleave != Interleave::kNone; }
  // Bytes and elements of a slice of an interleaved map.
  uint32_t SliceBytes() const { return interleave == Interleave::k16B ? 16 : 32; }
  uint32_t SliceElements() const { return SliceBytes() * 8 / ElementBits(); }
  // The dimension that counts channels.
  int ChannelDim() const { return Interleaved() ? rank - 2 : 0; }

  // Bits of one element in global memory, and bytes of `count` elements there (which start at a
  // byte boundary) and in shared memory.
  int ElementBits() const;
  uint32_t GlobalBytes(uint32_t count) const;
  uint32_t SharedBytes(uint32_t count) const;
  // Sixteen elements fill 16 bytes of shared memory, however small they are.
  bool Padded() const { return type == TensorType::kU4UnpackU8 || type == TensorType::kU6UnpackU8; }
  // The pattern of an element that NaN fill writes.
  uint64_t NanPattern() const;

  // EmulatorError "tensor-map" naming the field and its legal values.
  void Validate() const;
  // Encodes the map as the CUDA driver does for a Hopper GPU, except the driver's notes from word 8
  // on.
  void Encode(uint8_t* bytes) const;
  static TensorMap Decode(const uint8_t* bytes);
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ASYNC_TENSOR_MAP_H_
