// Estimates what an expression costs to compute, to choose between equal ones.
#ifndef TILELANG_ARITH_COST_H_
#define TILELANG_ARITH_COST_H_

#include "ir/expr.h"

namespace tilelang::arith {

// About the number of instructions, times 4; a shared subexpression counts at each use.
int64_t Cost(const ir::Expr& e);

}  // namespace tilelang::arith

#endif  // TILELANG_ARITH_COST_H_
