// Kernels for a GEMM whose sizes are known only at the call, and which one runs.
#ifndef TILELANG_TILING_CALL_KERNELS_H_
#define TILELANG_TILING_CALL_KERNELS_H_

#include <cstddef>
#include <functional>
#include <vector>

#include "tiling/tile_rules.h"
#include "tiling/tile_settings.h"

namespace tilelang::tiling {

struct CallKernel {
  Candidate candidate;  // as proposed for the longest call that was considered
  bool in_one_wave;     // runs only if the GPU computes all tiles of the call at a time
  TiledLaunch tiled;    // the program with its tiles
};

// Chooses at most `count` kernels for a GEMM with dynamic extents. A call runs the first kernel for
// one wave of which it does not have more tiles, and otherwise the kernel whose waves take the
// least time. The rules predict calls of 16 to 16384 rows, and as many columns if those are
// dynamic. The kernels are chosen one by one: the next one is the one that takes the most from the
// time by which these calls exceed their own best candidates. It has to take a share of a mean
// call: each is a kernel to compile.
//
// `apply` rewrites the program to a kernel, if that is possible. Returns no kernels if it can be
// rewritten to none for all calls.
std::vector<CallKernel> ChooseKernels(const TileRules& rules, const GemmProblem& problem,
                                      const TileSettings& settings, size_t count,
                                      const std::function<TiledLaunch(const CallKernel&)>& apply);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_CALL_KERNELS_H_
