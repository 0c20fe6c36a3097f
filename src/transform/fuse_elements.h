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
// The compiler chooses how many elements a block has for such loops (tiling/size_blocks.h), and
// vectors of a thread are as long as tensors allow. Tiles decide on both instead, and large ones
// leave a multiprocessor with few blocks. Tensors whose rows are no multiple of 16 bytes keep their
// tiles, which TMA and loads by several rows fill, unless a thread has less than 16 bytes of one.
//
// Tiles in shared memory or fragments are copied from and to boxes of tensors, filled with a
// number, and computed element by element. Loops that store elements have the same extents. A loop
// may read other elements of a tile that holds what a tensor has: those of a transposition, whose
// tiles transform/stage_columns.h chooses, and those of the same vector, such as the other one of a
// pair or the byte of several narrow values. Sliding windows keep their tiles, from which an
// element is read several times. Nothing else stands in the launch. Other tensors may be read along
// their rows or columns. No tensor that is written is read, but for the element itself where there
// is one result. A name beside the loops reads neither tiles nor tensors that are written. Values
// keep the types of the tiles, and so all roundings. No element decides whether another one is
// loaded, which then no vector could, and none divides a whole row (lower/divide_rows.h).
// Expressions stay small enough for loops by vectors (transform/substitute_values.h). It acts on
// all targets.
ir::Func FuseElements(const ir::Func& func);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_FUSE_ELEMENTS_H_
