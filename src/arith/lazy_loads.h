// Finds the loads that a choice decides on.
#ifndef TILELANG_ARITH_LAZY_LOADS_H_
#define TILELANG_ARITH_LAZY_LOADS_H_

#include "ir/expr.h"

namespace tilelang::arith {

// Returns whether `condition ? a : b` leaves out loads of shared or global memory: a branch loads
// an element that the condition does not load in any case. With `guarded`, the condition may load
// it under a condition of its own, if the element may lie outside.
bool DecidesOnLoads(const ir::SelectNode* choice, bool guarded = false);

}  // namespace tilelang::arith

#endif  // TILELANG_ARITH_LAZY_LOADS_H_
