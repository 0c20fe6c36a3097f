// Wider tiles of a plain GEMM (tiling/plain_gemm.h) with more than a wave of blocks, on targets
// with wgmma.
#ifndef TILELANG_TILING_WIDE_TILES_H_
#define TILELANG_TILING_WIDE_TILES_H_

#include "ir/function.h"
#include "target/target.h"
#include "tiling/plain_gemm.h"
#include "tiling/tile_cost.h"

namespace tilelang::tiling {

struct WideTiles {
  ir::Stmt launch;  // the launch itself if no others take clearly less time
  TileExtents tile{0, 0};
  double cost = 0;  // of the grid, by tiling/tile_cost.h
};

// Chooses wider tiles for a launch of 16-bit operands whose blocks have 128 x 128 of them: two or
// three warpgroups compute 128 x 256, 192 x 192, 128 x 192, 256 x 128, or other rows if these fill
// the waves of the grid. A multiprocessor multiplies tiles of 128 x 128 about as fast as the L2
// cache gives it operands; wider ones take fewer bytes for as many products.
//
// The accelerator must load the tiles, and what follows the loop must treat elements one by one.
// Other launches (reductions over the result, for one) keep two narrow blocks on a multiprocessor,
// of which one computes with its sums while the other multiplies. Sums of elements keep their
// order.
WideTiles ChooseWideTiles(const ir::Func& func, const ir::KernelLaunchNode* op,
                          const PlainGemm& plain, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_WIDE_TILES_H_
