#ifndef TILELANG_TILING_FIT_BLOCKS_H_
#define TILELANG_TILING_FIT_BLOCKS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Fits blocks of plain GEMMs (tiling/plain_gemm.h) whose tiles TMA loads to a multiprocessor:
//
// * 256 threads beside a warpgroup that loads take all registers for one block. While this block
//   stores its result, or begins, nothing multiplies. If 128 threads can hold the fragments, two
//   blocks of 128 threads and of a warp that loads have room, and take turns. This applies only to
//   grids of more than a wave: other grids leave an SM one block anyway.
// * If the program has fewer stages, a loop gets as many as shared memory has room for without
//   fewer blocks on an SM. It gets fewer stages if two blocks then have room instead of one.
//
// A remark names each choice. Applies to sm_90a and sm_120a. On sm_120a the model of time predicts
// up to 5 % less for grids of at most a wave, and at most 0.2 % more for others. On sm_100a
// tiling/choose_tiles.h chooses threads and stages. sm_80 has no TMA.
ir::Func FitBlocks(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_FIT_BLOCKS_H_
