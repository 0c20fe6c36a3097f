/*!
 * Shared-memory tiles as operands of tcgen05.mma and wgmma: what their matrix descriptors say.
 */
#ifndef TILELANG_LAYOUT_MATRIX_OPERAND_H_
#define TILELANG_LAYOUT_MATRIX_OPERAND_H_

#include <optional>
#include <string>

#include "layout/layout.h"

namespace tilelang::layout {

/*!
 * Fields of a matrix descriptor, in bytes (PTX ISA, "shared memory descriptor" and "canonical
 * layouts"). The leading offset of a swizzled K-major operand is unused and 0.
 */
struct MatrixOperand {
  int64_t swizzle_bytes = 16;    // 128, 64, 32, or 16: no swizzle
  int64_t leading_bytes = 0;     // LBO
  int64_t stride_bytes = 0;      // SBO
  int64_t atomicity_bytes = 16;  // what the swizzle moves: chunks of 16, or of 32 with 128 bytes
};

struct MatrixOperandResult {
  std::optional<MatrixOperand> operand;
  std::string reason;  // why the tile is no operand
};

/*!
 * Describes a two-dimensional tile (or a slice of one). With `k_major` its dimensions are
 * (M or N, K), else (K, M or N); the last one is the contiguous one. The descriptor's start
 * address is the tile's base plus PlainByteOffset of the first element of the instruction.
 */
MatrixOperandResult DescribeMatrixOperand(const Layout& smem, int64_t element_bits, bool k_major);

/*!
 * Byte offset of an element before swizzling: what is added to a descriptor's start address (the
 * hardware swizzles the sum). The tile's base is a multiple of 8 * swizzle_bytes.
 */
int64_t PlainByteOffset(const Layout& smem, int64_t element_bits, const Coord& coord);

}  // namespace tilelang::layout

#endif  // TILELANG_LAYOUT_MATRIX_OPERAND_H_
