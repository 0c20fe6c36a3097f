// Plain gemms whose blocks compute other tiles than the program's.
#ifndef TILELANG_TILING_RETILE_H_
#define TILELANG_TILING_RETILE_H_

#include <string>

#include "ir/function.h"
#include "tiling/plain_gemm.h"
#include "tiling/tile_cost.h"

namespace tilelang::tiling {

// Returns the launch with tiles of `to` instead of `from` elements along a dimension of its GEMMs;
// null where it is not possible (tiling/tile_cutter.h). Sets `obstacle` to the place of a statement
// that prevents it, if there is one.
ir::Stmt CutTile(const ir::Func& func, const ir::KernelLaunchNode* op, const PlainGemm& plain,
                 ir::GemmDim dim, int64_t from, int64_t to, ir::Span* obstacle = nullptr);

// Returns the launch whose loop takes `to` instead of `from` columns of its first GEMM's result in
// an iteration, and has as many more iterations; null where it is not possible. The caller knows
// that the loop computes the same.
ir::Stmt CutIterations(const ir::Func& func, const ir::KernelLaunchNode* op, const PlainGemm& plain,
                       int64_t from, int64_t to);
// Returns the launch with this loop instead of one of its statements.
ir::Stmt WithLoop(const ir::KernelLaunchNode* op, const ir::ForNode* loop, const ir::Stmt& other);

// Returns the launch with blocks of so many threads, which nothing of it refers to.
ir::KernelLaunch WithThreads(const ir::KernelLaunchNode* op, int64_t threads);

// Returns the launch with tiles of `to` instead of `from`, and blocks of so many threads; null
// where it is not possible.
ir::Stmt WithTiles(const ir::Func& func, const ir::KernelLaunchNode* op, const TileExtents& from,
                   const TileExtents& to, int64_t threads, ir::Span* obstacle = nullptr);
std::string Text(const TileExtents& tile);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_RETILE_H_
