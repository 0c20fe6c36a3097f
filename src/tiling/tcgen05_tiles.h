// Tiles of GEMMs that tcgen05.mma computes, and what they cost.
#ifndef TILELANG_TILING_TCGEN05_TILES_H_
#define TILELANG_TILING_TCGEN05_TILES_H_

#include <vector>

#include "target/target.h"
#include "tiling/candidate.h"
#include "tiling/gemm_problem.h"

namespace tilelang::tiling {

// Returns the tiles to consider, the cheapest first; costs are clocks. Each has 128 rows a block,
// the lanes of tensor memory, or 64 if there are no more: the bytes that 64 rows of A would take
// hold stages of B, which limits such GEMMs. Tiles have at most 256 columns, in steps of 16, so
// that two accumulators fit: one that a tile adds to while the tile before it is stored.
//
// The model: a block computes tiles one after another. A step along K takes the longest of
//  - the tensor core: 2 clocks a column for 1024 bits of K, and without pairs, the time in which it
//    reads both operands from shared memory;
//  - L2: the bytes of the rows of A that exist and of the columns of B (half of them in a pair);
//  - TMA: the rows of the boxes of A and B, of which there are more if the rows of B in memory run
//    along N and the columns of a tile are no multiple of 128 bytes;
//  - the round trip of a stage, divided by the stages; so is that trip and the products of a stage.
// The epilogue of a tile runs beside the next tile, if tensor memory has room for the sums of both;
// that of the last one does not. HBM bounds all but that one. The power limit lowers the clock by
// the work of the tensor cores and of L2. Blocks that share iterations, of grids of at most one
// wave, exchange their sums through shared memory. Tiles of block-scaled GEMMs have whole atoms of
// scale factors, and blocks do not share their iterations. Nor do they if an iteration has several
// gemms, whose sums lie side by side in tensor memory.
//
// If threads compute operands, a step takes at least the time in which they do: a latency, and
// clocks for each element. Tiles may then have 32 columns, and a block computes one. If threads
// compute B, the grid has at most one block for each multiprocessor: other programs keep their
// tiles.
std::vector<Candidate> ProposeTcgen05(const GemmProblem& problem, const Target& target);

// Returns the threads of a block: those of the program, at least a warpgroup, whose warps reach all
// lanes of tensor memory. It is one warpgroup where blocks exchange their sums: its threads hold
// whole rows of them.
int64_t ThreadsOfTcgen05(const GemmProblem& problem, const TileForm& form);

// Returns the candidate of one form; `stages` below 2 where shared memory has no room for it.
// `in_one_wave`: if the GEMM's tiles are at most a wave, the kernel computes no others.
Candidate PredictTcgen05(const GemmProblem& problem, const TileForm& form, bool in_one_wave,
                         const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_TCGEN05_TILES_H_
