// Structural equality and hashing of expressions: variables and buffers by identity, spans and
// call attributes ignored.
#ifndef TILELANG_ARITH_STRUCTURAL_H_
#define TILELANG_ARITH_STRUCTURAL_H_

#include "ir/expr.h"

namespace tilelang::arith {

bool SameStructure(const ir::Expr& a, const ir::Expr& b);
size_t StructuralHash(const ir::Expr& e);

// False for calls whose second evaluation may differ or that have an effect: such an expression
// must stay exactly once.
bool IsPureCall(const ir::CallNode* call);
// No such call anywhere inside.
bool IsPure(const ir::Expr& e);

}  // namespace tilelang::arith

#endif  // TILELANG_ARITH_STRUCTURAL_H_
