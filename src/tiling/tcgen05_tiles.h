// Tiles of GEMMs that tcgen05.mma computes, and what they cost.
#ifndef TILELANG_TILING_TCGEN05_TILES_H_
#define TILELANG_TILING_TCGEN05_TILES_H_

#include <vector>

#include "target/target.h"
#include "tiling/gemm_problem.h"

namespace tilelang::tiling {

// How blocks compute a GEMM.
struct Tcgen05Tiles {
  TileExtents tile;  // of a block
  bool pairs;        // two blocks, one below the other, multiply with halves of B (.cta_group::2)
  int64_t parts;     // blocks of a cluster that share the iterations of a tile (tiling/add_parts.h)
  int64_t stages;    // of the loop over K, as many as shared memory holds
  double clocks;     // by the model below
};

// Returns the tiles to consider, the cheapest first. Each has 128 rows a block, the lanes of tensor
// memory, or 64 if there are no more: the bytes that 64 rows of A would take hold stages of B,
// which limits such GEMMs. Tiles have at most 256 columns, in steps of 16, so that two accumulators
// fit: one that a tile adds to while the tile before it is stored.
//
// The model: a block computes tiles one after another. A step along K takes the longest of
//  - the tensor core: 2 clocks a column for 1024 bits of K, and without pairs, the time in which it
//    reads both operands from shared memory;
//  - L2: the bytes of the rows of A that exist and of the columns of B (half of them in a pair);
//  - the round trip of a stage, divided by the stages.
// The epilogue of a tile runs beside the next tile, if tensor memory has room for the sums of both;
// that of the last one does not. HBM bounds all but that one. The power limit lowers the clock by
// the work of the tensor cores and of L2. Blocks that share iterations, of grids of at most one
// wave, exchange their sums through shared memory. Tiles of block-scaled GEMMs have whole atoms of
// scale factors, and blocks do not share their iterations.
std::vector<Tcgen05Tiles> ProposeTcgen05(const GemmProblem& problem, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_TCGEN05_TILES_H_
