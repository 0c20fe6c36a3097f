// The shared-memory matrix descriptor and the instruction descriptor of tcgen05.
#ifndef TILELANG_EMULATOR_ASYNC_TCGEN05_DESCRIPTOR_H_
#define TILELANG_EMULATOR_ASYNC_TCGEN05_DESCRIPTOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/memory/swizzle.h"
#include "emulator/numerics/tensor_core.h"

namespace tilelang::emulator {

enum class MmaKind : uint8_t { kF16, kTf32, kF8f6f4, kI8 };

enum class AccumulatorType : uint8_t { kF16, kF32, kS32 };

const char* MmaKindName(MmaKind kind);

// K of one dense instruction: 32 bytes of operand elements.
constexpr int MmaDepth(MmaKind kind) {
  return kind == MmaKind::kF16 ? 16 : kind == MmaKind::kTf32 ? 8 : 32;
}

// The decoded 64-bit descriptor of a matrix in shared memory. Offsets are bytes; `start` is
// relative to the CTA's window, since the descriptor has no room for a cluster rank.
struct SmemDescriptor {
  uint32_t start = 0;
  uint32_t leading_offset = 0;
  uint32_t stride_offset = 0;
  Swizzle swizzle = Swizzle::kNone;
  // Where the swizzle's pattern starts, in 128-byte lines modulo 8.
  uint32_t base_offset = 0;
  // Legal, but likely a mistake; empty if nothing is odd.
  std::string warning;

  // EmulatorError "descriptor" for reserved bits, invalid swizzle codes, absolute leading offsets
  // and a base offset without a swizzle. `operand` names the operand in messages.
  static SmemDescriptor Parse(uint64_t bits, const char* operand);
  uint32_t PatternStart() const { return base_offset << 7; }
  // The shared address of the byte `offset` behind the start, after the swizzle.
  uint32_t AddressOf(uint32_t offset) const;
};

enum class MajorMode : uint8_t { kK, kMn };

// Shared-memory addresses of the 16-byte units of an operand tile, after the swizzle.
// K-major: units of row r are [r * 2 + u], u = 0, 1 along K.
// MN-major: units of k are [k * groups + g], each holding 16 / element_bytes rows.
std::vector<uint32_t> OperandUnits(const SmemDescriptor& descriptor, MajorMode major, int rows,
                                   int depth, int element_bytes);

// Addresses of `units` 16-byte units a row, [row * units + u], in K-major order, as tcgen05.cp
// reads.
std::vector<uint32_t> RowUnits(const SmemDescriptor& descriptor, int rows, int units);

struct InstructionDescriptor {
  MmaKind kind = MmaKind::kF16;
  bool weight_stationary = false;
  int m = 0;
  int n = 0;
  MatrixType a_type = MatrixType::kF16;
  MatrixType b_type = MatrixType::kF16;
  AccumulatorType d_type = AccumulatorType::kF32;
  bool negate_a = false;
  bool negate_b = false;
  MajorMode a_major = MajorMode::kK;
  MajorMode b_major = MajorMode::kK;
  bool saturate = false;
  int max_shift = 0;  // of the columns of B, with .ws

  // EmulatorError "descriptor" names the illegal field and the legal values; "unsupported" for
  // the sparse form.
  static InstructionDescriptor Parse(uint32_t bits, MmaKind kind, bool weight_stationary);
};

// Which swizzles go with a major-ness and an element type; EmulatorError "descriptor" otherwise.
void CheckOperandLayout(const SmemDescriptor& matrix, MajorMode major, MatrixType type,
                        const char* operand);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ASYNC_TCGEN05_DESCRIPTOR_H_
