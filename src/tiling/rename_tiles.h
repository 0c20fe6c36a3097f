#ifndef TILELANG_TILING_RENAME_TILES_H_
#define TILELANG_TILING_RENAME_TILES_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Gives a tile of its own to the values with which threads overwrite a loaded operand of a GEMM:
//
//   for k in T.Pipelined(steps, num_stages=3):         for k in T.Pipelined(steps, num_stages=3):
//       T.copy(A[y, k * 64], a)                            T.copy(A[y, k * 64], a)
//       for i, j in T.Parallel(128, 64):                   for i, j in T.Parallel(128, 64):
//           a[i, j] = T.max(a[i, j], 0)                        a_1[i, j] = T.max(a[i, j], 0)
//       T.gemm(a, b, c)                                    T.gemm(a_1, b, c)
//
// TMA can then load the next tile while the tensor core reads this one, and tiles can be chosen as
// for other operands that threads compute. A loop that overwrites elements under a condition keeps
// the others. Copies from fragments overwrite tiles, too.
//
// The loop has all uses of the tile, loads all of it before other uses, and multiplies it by a GEMM
// in its body. The program leaves the order of threads to the compiler, sets no layout of the tile,
// and shared memory has room for both. It acts on sm_100a and sm_90a. On sm_80 and sm_120a, whose
// warps read operands themselves, threads update the tile before they read it.
ir::Func RenameTiles(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_RENAME_TILES_H_
