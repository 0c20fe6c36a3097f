#ifndef TILELANG_TILING_FIT_BLOCKS_H_
#define TILELANG_TILING_FIT_BLOCKS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Fits blocks of plain gemms (tiling/plain_gemm.h) to a multiprocessor of a target with wgmma:
//
// * 256 threads beside a warpgroup that loads take all registers for one block. While it stores its
//   result, or begins, nothing multiplies. Where 128 threads can hold the fragments, two blocks of
//   them and of a warp that loads have room, and take turns. Of grids of more than a wave alone:
//   others leave an SM one block anyway.
// * A loop gets as many stages as shared memory has room for without fewer blocks on an SM, where
//   the program says fewer; and fewer where two blocks then have room instead of one.
// * Where threads load the tiles, those of rows that the accelerator cannot load, and the sums take
//   half of the registers of 128 threads, 256 compute a block.
//
// Remarks say each.
ir::Func FitBlocks(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_FIT_BLOCKS_H_
