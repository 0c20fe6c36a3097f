#ifndef TILELANG_TRANSFORM_WIDEN_INDICES_H_
#define TILELANG_TRANSFORM_WIDEN_INDICES_H_

#include "ir/function.h"

namespace tilelang::transform {

// The analyzer takes arithmetic on int32 variables not to overflow. Indices of tensors and operands
// of comparisons of which that is not so are computed in 64 bits afterwards:
//   * those known to pass 2^31, from the constant ranges of their variables;
//   * all that may pass it, where the dimension itself may (an extent of 2^31, or one of int64).
ir::Func WidenIndices(const ir::Func& func);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_WIDEN_INDICES_H_
