// Tiles in shared memory as block-scaled tensor cores read types of different sizes in one gemm:
// bytes along the last dimension, 16 elements of 4 or 6 bits in the first 8 or 12 of each 16.
#ifndef TILELANG_IR_PADDED_H_
#define TILELANG_IR_PADDED_H_

#include "ir/copy_operator.h"
#include "ir/gemm.h"

namespace tilelang::ir {

// Attribute of the buffer of such a tile (String): the type of its elements.
inline constexpr const char* kPaddedType = "padded_type";
// Attribute of calls that load a box of it from a tensor (int): the bytes that an mbarrier counts.
inline constexpr const char* kPackedBytes = "packed_bytes";
// Elements, and bytes, of a unit.
inline constexpr int64_t kPaddedUnit = 16;

// A float of a sign, bits of exponent with a bias, and so many of fraction; no infinity, no NaN.
struct SmallFloat {
  const char* name;
  const char* ptx;
  int64_t bits;
  int64_t fraction;
  int64_t bias;

  // Returns the bytes of a unit that hold elements.
  int64_t UnitBytes() const { return bits * kPaddedUnit / 8; }
};
// Two of them in a byte are an element of GemmFormat::kE2M1x2.
inline constexpr SmallFloat kE2M1{"float4_e2m1fn", "e2m1", 4, 1, 1};

// The type of the elements of a padded tile; null of all other buffers.
const SmallFloat* PaddedType(const Buffer& buffer);
// Returns the type of padded elements if the copy goes between a padded tile and a tensor of bytes
// without pads. The last extents of its regions then differ. Returns null for all other copies.
const SmallFloat* PaddedType(const CopyNode* op);
// Returns whether A or B of a GEMM has padded elements.
bool HasPaddedInput(const GemmNode* op);

}  // namespace tilelang::ir

#endif  // TILELANG_IR_PADDED_H_
