#ifndef TILELANG_TRANSFORM_WRAP_INDICES_H_
#define TILELANG_TRANSFORM_WRAP_INDICES_H_

#include "ir/function.h"

namespace tilelang::transform {

// An index of an element that is known to be negative counts from the end of its dimension, as a
// constant one does: A[-i - 1] is A[n - i - 1]. One that may be either is left as it is: a load
// outside of a tensor, where it is negative.
ir::Func WrapIndices(const ir::Func& func);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_WRAP_INDICES_H_
