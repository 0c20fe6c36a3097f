#ifndef TILELANG_TILING_CUT_TILES_H_
#define TILELANG_TILING_CUT_TILES_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Cuts the tiles of a plain gemm (tiling/plain_gemm.h) with a long loop, on targets with wgmma:
//
// * Tiles have no more rows than their tensors: of 128, where there are 16, 64 stay, the rows of
//   wgmma.
// * Where a grid has at most half as many blocks as the GPU has multiprocessors, more blocks
//   compute fewer columns each: so all of the GPU loads. Two warpgroups share 128 rows.
//
// Only where all statements treat the rows, or columns, of the result alike, each by itself:
// copies, fills, the gemm, parallel loops. Sums of elements keep their order. Remarks say each.
ir::Func CutTiles(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_CUT_TILES_H_
