// Tiles of a plain gemm (tiling/plain_gemm.h) that divide its rows evenly.
#ifndef TILELANG_TILING_EVEN_TILES_H_
#define TILELANG_TILING_EVEN_TILES_H_

#include "ir/function.h"
#include "target/target.h"
#include "tiling/plain_gemm.h"
#include "tiling/tile_cost.h"

namespace tilelang::tiling {

struct EvenTiles {
  ir::Stmt launch;  // null: there are none that take clearly less time than others
  TileExtents tile{};
  int64_t parts = 1;  // blocks that share the iterations of a tile (tiling/add_parts.h)
  int64_t tiles = 0;

  // A warpgroup for 64 of the columns, which are rows of the transposed product.
  int64_t Threads() const;
};

// Chooses the tiles of a launch of kNarrow tiles (tiling/retile.h) with `rows` rows: the rows of
// the tensors, or the largest number in calls of one kernel. All blocks run at the same time.
// tiling/tile_cost.h compares the tiles with the ones that CutTiles and WidenTiles would make.
EvenTiles ChooseEvenTiles(const ir::Func& func, const ir::KernelLaunchNode* op,
                          const PlainGemm& plain, int64_t rows, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_EVEN_TILES_H_
