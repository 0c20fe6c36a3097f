#ifndef TILELANG_TRANSFORM_FUSE_ELEMENTS_H_
#define TILELANG_TRANSFORM_FUSE_ELEMENTS_H_

#include "ir/function.h"

namespace tilelang::transform {

// Makes one parallel loop over elements of tensors of a launch that does the same through tiles:
//
//   T.copy(A[y, x], a)                               for i, j in T.Parallel(1, 1024):
//   for i, j in T.Parallel(1, 1024):                     C[y + i, x + j] = A[y + i, x + j] * 2
//       a[i, j] = a[i, j] * 2
//   T.copy(a, C[y, x])
//
// It does so where a thread has less than 16 bytes of the tensor with the shortest elements: 1024
// elements by 1024 threads. The compiler chooses how many elements a block has for such loops
// (tiling/size_blocks.h), while blocks with tiles load by vectors of what a thread has.
//
// Tiles in shared memory or fragments are copied from and to boxes of tensors, filled with a
// number, and computed element by element by loops whose variables are their indices. Nothing else
// stands in the launch. Other tensors may be read at any place that does not have another stride
// than one in the last variable: transposes keep their tiles. No tensor that is written is read,
// but for the element itself where there is one result. A name beside the loops reads neither tiles
// nor tensors that are written. Values keep the types of the tiles, and so all roundings.
// Expressions stay small enough for loops by vectors (transform/substitute_values.h). It acts on
// all targets.
ir::Func FuseElements(const ir::Func& func);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_FUSE_ELEMENTS_H_
