#ifndef TILELANG_TRANSFORM_NAME_COPIES_H_
#define TILELANG_TRANSFORM_NAME_COPIES_H_

#include "ir/function.h"

namespace tilelang::transform {

// Rewrites T.Parallel loops that only copy boxes of tensors to shared tiles as copies:
//
//   for i, j in T.Parallel(128, 64):                     T.copy(A[y:y + 128, x:x + 64], a)
//       a[i, j] = T.if_then_else(x + j < K, A[y + i, x + j], 0)
//
// so that all choices for copies hold for them: TMA, loads ahead in pipelined loops, tiles of
// GEMMs. Each variable of the loop moves one index of the tensor and one of the tile by one, in the
// same order. A condition may select zero instead of the element if it holds for all elements that
// exist: a copy reads zeros outside of its tensor. A loop of several such stores becomes several
// copies. Loops with annotations stay. It acts on all targets: on those without TMA, copies become
// vectors of cp.async.
ir::Func NameCopies(const ir::Func& func);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_NAME_COPIES_H_
