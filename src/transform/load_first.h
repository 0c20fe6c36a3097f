#ifndef TILELANG_TRANSFORM_LOAD_FIRST_H_
#define TILELANG_TRANSFORM_LOAD_FIRST_H_

#include "ir/function.h"

namespace tilelang::transform {

// Splits loops that compute registers from elements of several tensors: all elements are loaded
// into registers before anything is computed, so that the loads are in flight together.
//
//   for i, j in Parallel: w[i, j] += DY[i, j] * X[i, j] * s[i]      becomes
//
//   copies of DY, X and s into fragments, of the variables that each follows; the loop on them
//
// So are loops of atomic operations, such as those of a histogram, which would otherwise wait for
// the element that one adds or by which it is chosen, before the next one is loaded:
//
//   for i in Parallel: atomic_add(H[X[i]], 1)
//
// Loads of what the loop writes, whose places are read from memory, or that a condition in an
// expression guards, stay where they are, and loops whose elements would take too many registers as
// a whole. Kernels with gemms stay as they are: their accumulators take the registers.
ir::Func LoadFirst(const ir::Func& func);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_LOAD_FIRST_H_
