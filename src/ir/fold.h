// Integer arithmetic as the IR defines it, on values known at compile time.
#ifndef TILELANG_IR_FOLD_H_
#define TILELANG_IR_FOLD_H_

#include <optional>

#include "ir/expr.h"

namespace tilelang::ir {

// Rounding toward minus infinity; b != 0, and not the most negative integer by -1.
int64_t FloorDivInt(int64_t a, int64_t b);
// In [0, b) for positive b.
int64_t FloorModInt(int64_t a, int64_t b);

// Wraps a value to the range of an integer type, as the hardware does.
int64_t Wrap(DType t, int64_t value);

// a op b on operands of an integer type or bool, not yet wrapped: nullopt for a division by zero
// and a shift out of range.
std::optional<int64_t> FoldInt(BinaryOp op, DType t, int64_t a, int64_t b);

}  // namespace tilelang::ir

#endif  // TILELANG_IR_FOLD_H_
