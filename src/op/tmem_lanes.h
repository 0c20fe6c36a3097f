// Tiles of 64 rows, of which two can lie in the same columns of tensor memory.
#ifndef TILELANG_OP_TMEM_LANES_H_
#define TILELANG_OP_TMEM_LANES_H_

#include <utility>
#include <vector>

#include "op/tmem.h"

namespace tilelang::op {

// The lanes of a tile: the lower or the upper 16 of each 32, or both.
enum class TmemHalf { kBoth, kLower, kUpper };
TmemHalf HalfOf(const TmemLayout& layout);

// An instruction of M = 64 keeps its accumulator in 16 of each 32 lanes:
//
//     lanes   0..15   rows 0..15 of O        columns 0..511
//     lanes  16..31   rows 0..15 of S        columns 0..63
//     lanes  32..47   rows 16..31 of O       ...
//
// Attention with a result of 64 x 512 (MLA) fills all 512 columns with O; its scores, S, have room
// in the other lanes. Returns the tiles that should lie in the upper lanes, with their layouts,
// where the tiles of a launch together have more than `columns` columns: accumulators of 64 rows,
// for gemms of one block on A in shared memory. Tiles with an annotated layout stay.
std::vector<std::pair<Buffer, TmemLayout>> TilesInUpperLanes(const ir::KernelLaunchNode* launch,
                                                             int64_t columns);

}  // namespace tilelang::op

#endif  // TILELANG_OP_TMEM_LANES_H_
