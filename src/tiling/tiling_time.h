// Estimates the time of a kernel of which only the sizes are known, for choices made before there
// is a program.
#ifndef TILELANG_TILING_TILING_TIME_H_
#define TILELANG_TILING_TILING_TIME_H_

#include <cstdint>

#include "target/target.h"
#include "tiling/tile_cost.h"

namespace tilelang::tiling {

// C (m, n) = A (m, k) B, and the bits of an element of A and B, of C, and of the sums.
struct GemmSizes {
  int64_t m, n, k;
  int64_t operand_bits, result_bits, sum_bits;
};

// Tiles of a gemm's grid as a program states them.
struct GemmTiling {
  TileExtents tile;
  int64_t depth;   // elements of K a step
  int64_t stages;  // of the loop over steps
  int64_t threads;
};

// Seconds of a gemm by tiling/tile_cost.h, with the latency that stages hide, the blocks that a
// multiprocessor holds, and HBM; infinite where no block fits.
double GemmSeconds(const Target& target, const GemmSizes& sizes, const GemmTiling& tiling);

// Seconds of blocks of so many threads that read and write so many bytes each.
double SweepSeconds(const Target& target, int64_t blocks, double bytes_of_block, int64_t threads);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_TILING_TIME_H_
