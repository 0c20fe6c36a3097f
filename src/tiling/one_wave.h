// Tiles of a plain GEMM (tiling/plain_gemm.h) whose blocks all run at the same time, on targets
// with wgmma.
#ifndef TILELANG_TILING_ONE_WAVE_H_
#define TILELANG_TILING_ONE_WAVE_H_

#include <string>
#include <vector>

#include "ir/function.h"
#include "target/target.h"
#include "tiling/considered_tiles.h"
#include "tiling/gemm_problem.h"
#include "tiling/plain_gemm.h"

namespace tilelang::tiling {

// A candidate. wgmma computes the product, whose tiles have rows in 64s, or the transposed product,
// whose tiles have columns in 64s and rows in 8s. A warpgroup has 64 of either.
struct WaveTiles {
  TileExtents tile{0, 0};
  bool transposed = false;
  int64_t parts = 1;  // blocks of a cluster that share the iterations of a tile
  int64_t tiles = 0;  // of the grid
  double cost = 0;    // by tiling/tile_cost.h, with the time of memory

  int64_t Threads() const;
};

struct OneWave {
  ir::Stmt launch;  // null: no candidate takes clearly less time than the program's tiles
  WaveTiles choice;
  double cost = 0;  // of the choice, or of the program's tiles; like `choice.cost`
  // A candidate of less cost to which the program cannot be rewritten, with the reason and the
  // place of what prevents it; the reason is empty if there is none.
  WaveTiles excluded;
  std::string reason;
  ir::Span span;
  std::vector<ConsideredTiles> considered;
};

// Chooses the tiles of a launch with `rows` rows: the rows of the tensors, or the largest number in
// calls of one kernel. `otherwise`: the cost of the grid with other tiles, without the time of
// memory.
OneWave ChooseOneWave(const ir::Func& func, const ir::KernelLaunchNode* op, const PlainGemm& plain,
                      int64_t rows, double otherwise, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_ONE_WAVE_H_
