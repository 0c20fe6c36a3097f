#ifndef TILELANG_TRANSFORM_JOIN_VECTORIZED_H_
#define TILELANG_TRANSFORM_JOIN_VECTORIZED_H_

#include "ir/function.h"

namespace tilelang::transform {

// Makes a T.vectorized loop that is the whole body of T.Parallel one of its dimensions, where it
// goes along a dimension of a fragment:
//
//     for i in T.Parallel(128):
//         for j in T.vectorized(64):        ->      for i, j in T.Parallel(128, 64):
//             acc[i, j] = acc[i, j] * scale[i]          acc[i, j] = acc[i, j] * scale[i]
//
// Its iterations are independent, too. Each thread then does those whose elements it holds. With a
// loop inside, the fragment would be staged in shared memory: its index depends on the loop.
ir::Func JoinVectorized(const ir::Func& func);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_JOIN_VECTORIZED_H_
