// Values that follow from variables and constants alone.
#ifndef TILELANG_IR_ARITHMETIC_H_
#define TILELANG_IR_ARITHMETIC_H_

#include "ir/visitor.h"

namespace tilelang::ir {

// Returns whether the expression neither loads memory nor calls a function.
inline bool IsArithmetic(const Expr& value) {
  return !HasExpr(value, [](const Expr& e) {
    return e->kind == ExprKind::kLoad || e->kind == ExprKind::kCall;
  });
}

}  // namespace tilelang::ir

#endif  // TILELANG_IR_ARITHMETIC_H_
