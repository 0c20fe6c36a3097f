// The instruction descriptor of tcgen05, and which matrix descriptors go with it.
#ifndef TILELANG_EMULATOR_ASYNC_TCGEN05_DESCRIPTOR_H_
#define TILELANG_EMULATOR_ASYNC_TCGEN05_DESCRIPTOR_H_

#include <cstdint>

#include "emulator/async/matrix_descriptor.h"
#include "emulator/numerics/scaled_multiplier.h"
#include "emulator/numerics/tensor_core.h"

namespace tilelang::emulator {

enum class MmaKind : uint8_t { kF16, kTf32, kF8f6f4, kI8, kMxf8f6f4, kMxf4, kMxf4nvf4 };

const char* MmaKindName(MmaKind kind);

constexpr bool IsBlockScaled(MmaKind kind) { return kind >= MmaKind::kMxf8f6f4; }
// Two elements of e2m1 in a byte.
constexpr bool IsFp4(MmaKind kind) { return kind == MmaKind::kMxf4 || kind == MmaKind::kMxf4nvf4; }

// Elements of a row of A in one instruction: 32 bytes. K is twice that if A is sparse. Of e2m1 some
// devices have K = 96, too.
constexpr int kLongDepth = 96;
constexpr int MmaDepth(MmaKind kind) {
  if (kind == MmaKind::kF16) return 16;
  return kind == MmaKind::kTf32 ? 8 : IsFp4(kind) ? 64 : 32;
}

struct InstructionDescriptor {
  MmaKind kind = MmaKind::kF16;
  bool weight_stationary = false;
  bool pair = false;    // of CTAs: each has half of the rows of A and D, and of the columns of B
  bool sparse = false;  // A
  int selector = 0;     // of the column of a pair that has the metadata of a sparse A
  int m = 0;
  int n = 0;
  int depth = 0;  // elements of a row of A
  MatrixType a_type = MatrixType::kF16;
  MatrixType b_type = MatrixType::kF16;
  AccumulatorType d_type = AccumulatorType::kF32;
  bool negate_a = false;
  bool negate_b = false;
  MajorMode a_major = MajorMode::kK;
  MajorMode b_major = MajorMode::kK;
  bool saturate = false;
  int max_shift = 0;  // of the columns of B, with .ws
  // Scale factors of block-scaled kinds: their number in a row, and which byte is the first.
  ScaleType scale_type = ScaleType::kUe8m0;
  int scale_count = 0;
  int scale_a_id = 0;
  int scale_b_id = 0;

  int ctas() const { return pair ? 2 : 1; }
  // Elements of a column of B.
  int lines() const { return depth * (sparse ? 2 : 1); }
  // Returns the rows of A and D in each CTA.
  int rows() const { return m / ctas(); }

  // EmulatorError "descriptor" names the illegal field and the legal values.
  static InstructionDescriptor Parse(uint32_t bits, MmaKind kind, bool weight_stationary, bool pair,
                                     bool sparse);
  // The encoding of the block-scaled kinds; `block` elements of K share a scale factor. `long_k`:
  // the device has K = 96.
  static InstructionDescriptor ParseScaled(uint32_t bits, MmaKind kind, int block, bool pair,
                                           bool sparse, bool long_k);
};

// Checks which swizzles go with a major-ness and an element type. Raises EmulatorError "descriptor"
// otherwise.
void CheckOperandLayout(const MatrixDescriptor& matrix, MajorMode major, MatrixType type,
                        const char* operand);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ASYNC_TCGEN05_DESCRIPTOR_H_
