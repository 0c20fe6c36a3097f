#ifndef TILELANG_TRANSFORM_JOIN_STORES_H_
#define TILELANG_TRANSFORM_JOIN_STORES_H_

#include "ir/function.h"

namespace tilelang::transform {

// Joins stores of a parallel loop that interleave into one, in a loop with as many iterations more:
//
//   for i, j in T.Parallel(64, 32):          for i, j in T.Parallel(64, 64):
//       Y[i, 2 * j] = a             ->           Y[i, j] = a if j % 2 == 0 else b
//       Y[i, 2 * j + 1] = b                      (j // 2 in place of j in a and b)
//
// Neighbouring iterations then store neighbouring elements, and vectors can carry them out. Pairs
// of rotary embeddings, complex numbers and unpacked values are examples.
//
// All stores of the loop are to one tensor or shared tile that the loop does not read, in the
// residues of the last index by their number, a power of two up to eight. The loop touches no
// fragment, whose layout would decide which threads run its iterations. On all targets.
ir::Func JoinStores(const ir::Func& func);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_JOIN_STORES_H_
