#ifndef TILELANG_TRANSFORM_WIDEN_INDICES_H_
#define TILELANG_TRANSFORM_WIDEN_INDICES_H_

#include "ir/function.h"

namespace tilelang::transform {

// Computes indices of tensors and operands of comparisons in 64 bits if they may overflow int32.
// The analyzer assumes that arithmetic on int32 variables does not overflow. Two kinds are widened:
//   * indices known to pass 2^31, from the constant ranges of their variables;
//   * all indices that may pass it, if the dimension itself may (an extent of 2^31, or of int64).
ir::Func WidenIndices(const ir::Func& func);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_WIDEN_INDICES_H_
