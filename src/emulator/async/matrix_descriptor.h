// The 64-bit descriptor of a matrix in shared memory, and where its operand lies: the canonical
// layouts of the PTX ISA, which wgmma and tcgen05 share. Only the encodings differ.
#ifndef TILELANG_EMULATOR_ASYNC_MATRIX_DESCRIPTOR_H_
#define TILELANG_EMULATOR_ASYNC_MATRIX_DESCRIPTOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/memory/swizzle.h"

namespace tilelang::emulator {

// The instruction whose encoding is used. Encodings differ in the swizzle codes and in the constant
// and reserved bits. With K = 96 tcgen05 takes absolute leading offsets.
enum class DescriptorFormat : uint8_t { kWgmma, kTcgen05, kTcgen05K96 };

// A decoded descriptor. Offsets are bytes; `start` is relative to the CTA's window, since the
// descriptor has no room for a cluster rank.
struct MatrixDescriptor {
  uint32_t start = 0;
  uint32_t leading_offset = 0;
  uint32_t stride_offset = 0;
  Swizzle swizzle = Swizzle::kNone;
  // The start of the swizzle's pattern, in 128-byte lines modulo 8; 0 without a swizzle.
  uint32_t base_offset = 0;
  // The leading offset is the address of the next buffer, where rows go on that run over the
  // swizzle's width.
  bool absolute_leading = false;
  // Legal, but likely a mistake; empty if nothing is odd.
  std::string warning;

  // EmulatorError "descriptor" for reserved bits, invalid swizzle codes, and absolute leading
  // offsets where there are none. `operand` names the operand in messages.
  static MatrixDescriptor Parse(uint64_t bits, DescriptorFormat format, const char* operand);
  uint32_t PatternStart() const { return base_offset << 7; }
  // The shared address of the byte `offset` after the start, after the swizzle.
  uint32_t AddressOf(uint32_t offset) const;
};

enum class MajorMode : uint8_t { kK, kMn };

// Shared-memory addresses of the 16-byte units of an operand tile, after the swizzle.
// K-major: units of row r are [r * k_units + u] along K.
// MN-major: units of k are [k * groups + g], each holding 16 / element_bytes rows.
std::vector<uint32_t> OperandUnits(const MatrixDescriptor& descriptor, MajorMode major, int rows,
                                   int depth, int element_bytes, int k_units);

// Addresses of `units` 16-byte units a row, [row * units + u], in K-major order, as tcgen05.cp
// reads. EmulatorError "descriptor" for rows of 48 bytes that run over the swizzle's width where no
// buffer follows.
std::vector<uint32_t> RowUnits(const MatrixDescriptor& descriptor, int rows, int units);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ASYNC_MATRIX_DESCRIPTOR_H_
