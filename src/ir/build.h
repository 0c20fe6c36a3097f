// Building expressions by the language's rules: dtype promotion as TileLang users expect.
#ifndef TILELANG_IR_BUILD_H_
#define TILELANG_IR_BUILD_H_

#include "ir/expr.h"

namespace tilelang::ir {

// The type that two operands of an arithmetic operation are converted to: the wider float, a
// float over an integer, float32 for two different 16-bit or 8-bit floats, the wider integer
// (unsigned where the unsigned one is at least as wide), an integer over bool.
DType Promote(DType a, DType b);

// a op b with promotion. "/" of integers gives float32 (true division).
// Raises DTypeError for bit operations on floats and the like.
Expr Arithmetic(BinaryOp op, Expr a, Expr b, const Span& span);
Expr MakeUnary(UnaryOp op, Expr a, const Span& span);
Expr MakeSelect(Expr condition, Expr true_value, Expr false_value, const Span& span);
// A value as a condition: itself if bool, else value != 0.
Expr AsCondition(const Expr& value);

}  // namespace tilelang::ir

#endif  // TILELANG_IR_BUILD_H_
