// Tiles in shared memory as operands of tcgen05.mma and wgmma: which layouts they read, and the
// descriptors by which instructions name them.
#ifndef TILELANG_OP_MATRIX_DESCRIPTOR_H_
#define TILELANG_OP_MATRIX_DESCRIPTOR_H_

#include <functional>
#include <string>
#include <utility>

#include "layout/matrix_operand.h"
#include "op/instruction.h"

namespace tilelang::op {

// Returns the extents of an operand of a GEMM: the last two of the region. The extents before them
// are 1.
std::pair<int64_t, int64_t> MatrixExtents(const Region& region, const Span& span);

// Describes the last two dimensions of a buffer for a descriptor. Major-ness as in
// layout/matrix_operand.h: `mn_major` says that M or N is the contiguous dimension.
layout::MatrixOperandResult DescribeOperand(const Buffer& buffer, const Layout& layout,
                                            bool mn_major);
// Returns the multiple along M or N, in elements, at which an instruction may begin in such an
// operand.
int64_t UnitAlongMn(const Buffer& buffer, const Layout& layout, bool mn_major);
// Returns why one descriptor cannot walk the region from its corner in equal steps, and what to do.
// Returns an empty string if it can.
std::string CornerProblem(const Region& region, const Layout& layout, bool mn_major,
                          arith::Analyzer* analyzer);

// The width of the fewest instructions that cover n columns, each of which begins at a multiple of
// `unit` and has a width for which `is_width` holds; the last may be narrower. 0: there are none.
int64_t WidestCover(int64_t n, int64_t unit, const std::function<bool(int64_t)>& is_width);

// The 64-bit descriptors of the two generations differ in a version (PTX ISA 9.1, "Matrix
// Descriptor Format" of wgmma, "Shared memory descriptor" of tcgen05).
// kTcgen05Long: of rows of 48 bytes, which may go on in the next buffer of 128: that one's address
// stands in the place of an offset ("absolute leading dimension", sm_103a).
enum class DescriptorFormat { kWgmma, kTcgen05, kTcgen05Long };
// The constant bits. Bits 0..13 (the start address) are zero.
uint64_t SharedDescriptor(const layout::MatrixOperand& operand, DescriptorFormat format);
// The descriptor that starts at `address` (of an element in shared memory); uint64.
Expr DescriptorAt(const Expr& address, const layout::MatrixOperand& operand,
                  DescriptorFormat format);

// The part of an operand that the threads use, if it is divided into equal parts along M or N.
struct OperandPart {
  Expr index;  // undefined: the only one
  int64_t size = 0;
};

// Returns the attributes of a call that lets the tensor core read operands in shared memory: which
// operands, and in what part of a buffer of several matrices.
Map<String, Any> ReadsOfOperands(const std::vector<Region>& operands, const Lowering& lowering);

// An operand without CornerProblem: a descriptor, and what to add to it for an instruction's
// corner.
class SharedOperand {
 public:
  SharedOperand(const Region& region, bool mn_major, DescriptorFormat format, const char* name,
                const Lowering& lowering, const Span& span, const OperandPart& part = {});

  // The definition of the descriptor of the part's corner.
  const Stmt& bind() const { return bind_; }
  // The descriptor at (mn, k) inside the part.
  Expr At(int64_t mn, int64_t k) const;

 private:
  // Returns bits that say where rows continue that begin at (mn, k).
  Expr NextBuffer(int64_t mn, int64_t k) const;
  // From one descriptor to another.
  Expr Step(int64_t mn, int64_t k) const;

  Region region_;
  bool mn_major_;
  DescriptorFormat format_;
  Layout layout_;
  Var descriptor_;
  Stmt bind_;
};

}  // namespace tilelang::op

#endif  // TILELANG_OP_MATRIX_DESCRIPTOR_H_
