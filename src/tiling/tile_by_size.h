#ifndef TILELANG_TILING_TILE_BY_SIZE_H_
#define TILELANG_TILING_TILE_BY_SIZE_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Chooses tiles at the call for plain GEMMs (tiling/plain_gemm.h) of 16-bit operands with blocks of
// 128 x 128 elements and dynamic rows or columns, on targets with wgmma. The best tiles depend on
// the sizes, so the launch is written several times, and each call runs one of them:
//
// * If all blocks are in one wave: tiles of 128 x 128 with all the stages that fit, and tiles of
// fewer
//   rows and columns as long as more multiprocessors then load. If only the rows are dynamic, and
//   rows and columns are few: tiles of tiling/one_wave.h whose blocks share K.
// * Otherwise, if blocks only copy their results: wide tiles, the ones that take the least time by
//   tiling/tile_cost.h. The host computes the time from the sizes.
//
// Sums of elements keep their order, except where blocks share K. A remark names the tiles.
ir::Func TileBySize(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_TILE_BY_SIZE_H_
