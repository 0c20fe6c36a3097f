#ifndef TILELANG_TRANSFORM_TRIM_PARALLEL_H_
#define TILELANG_TRANSFORM_TRIM_PARALLEL_H_

#include "ir/function.h"

namespace tilelang::transform {

// Leaves out the iterations of T.Parallel whose condition never holds, where with them an index of
// a fragment would leave its tile:
//
//     for i, j in T.Parallel(32, n):        for i, j in T.Parallel(16, n):
//         if i < 16:                  ->        half[i, j] = acc[i + 16, j]
//             half[i, j] = acc[i + 16, j]
//
// The iterations that are left match elements of the fragment, so that each thread does those whose
// elements it holds. With the others the fragment would be staged in shared memory.
ir::Func TrimParallel(const ir::Func& func);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_TRIM_PARALLEL_H_
