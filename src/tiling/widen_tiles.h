#ifndef TILELANG_TILING_WIDEN_TILES_H_
#define TILELANG_TILING_WIDEN_TILES_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Widens the tiles of a plain gemm (tiling/plain_gemm.h) of 16-bit operands whose blocks have
// 128 x 128 of them, on targets with wgmma: two or three warpgroups compute 128 x 256, 192 x 192,
// 128 x 192, 256 x 128, or other rows where these fill the waves of the grid. A multiprocessor
// multiplies tiles of 128 x 128 about as fast as the L2 cache gives it operands; wider ones take
// fewer bytes for as many products. Which, if any, says tiling/tile_cost.h: by those bytes, and
// by the waves that the tiles of the grid are.
//
// Of grids with several blocks for each multiprocessor, where the accelerator loads the tiles, and
// what follows the loop treats elements one by one. Other launches (reductions over the result, for
// one) keep two narrow blocks on a multiprocessor, of which one computes with its sums while the
// other multiplies. Sums of elements keep their order. Remarks say each.
ir::Func WidenTiles(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_WIDEN_TILES_H_
