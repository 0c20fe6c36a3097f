#ifndef TILELANG_TILING_TILE_BY_SIZE_H_
#define TILELANG_TILING_TILE_BY_SIZE_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Plain gemms (tiling/plain_gemm.h) of 16-bit operands whose blocks have 128 x 128 of them, with
// rows or columns whose number is known at the call only, on targets with wgmma. Which tiles are
// best depends on it, so the launch is there several times, and each call runs one:
//
// * where all blocks are in one wave, tiles of 128 x 128 with all the stages that fit, and of fewer
//   rows and columns as long as more multiprocessors then load; where only the rows are of the
//   call, for few of them and few columns those of tiling/even_tiles.h whose blocks share K;
// * else, where they only copy their results, wide tiles: the ones of which tiling/tile_cost.h
//   says that they take the least time. The host computes it from the sizes.
//
// Sums of elements keep their order, but where blocks share K. A remark names the tiles.
ir::Func TileBySize(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_TILE_BY_SIZE_H_
