// Tiles of a plain gemm (transform/plain_gemm.h) that divide its rows evenly.
#ifndef TILELANG_TRANSFORM_EVEN_TILES_H_
#define TILELANG_TRANSFORM_EVEN_TILES_H_

#include "ir/function.h"
#include "target/target.h"
#include "transform/plain_gemm.h"
#include "transform/tile_cost.h"

namespace tilelang::transform {

// The attribute of functions whose sums no blocks share.
inline constexpr const char* kWholeSums = "whole_sums";

struct EvenTiles {
  ir::Stmt launch;  // null: there are none that take clearly less time than others
  TileExtents tile{};
  int64_t parts = 1;  // blocks that share the iterations of a tile (transform/add_parts.h)
  int64_t tiles = 0;

  // A warpgroup for 64 of the columns, which are rows of the transposed product.
  int64_t Threads() const;
};

// For a launch of kNarrow tiles (transform/retile.h), and `rows` rows: those of the tensors, or as
// many as calls of one kernel have at most. All blocks are there at a time. Which tiles, says
// transform/tile_cost.h, beside what CutTiles and WidenTiles would make.
EvenTiles ChooseEvenTiles(const ir::Func& func, const ir::KernelLaunchNode* op,
                          const PlainGemm& plain, int64_t rows, const Target& target);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_EVEN_TILES_H_
