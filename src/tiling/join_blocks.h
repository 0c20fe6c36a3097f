#ifndef TILELANG_TILING_JOIN_BLOCKS_H_
#define TILELANG_TILING_JOIN_BLOCKS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Lets a block compute several short rows where the program has one block for each row:
//
//   T.Kernel(M) as row:                  T.Kernel(M / 32) as block:
//     X[row, 0:128] -> x (1, 128)   ->     X[block * 32 : block * 32 + 32, 0:128] -> x (32, 128)
//     x -> most (1,) by max                x -> most (32,) by max
//
// A block of one row of 128 elements has one element a thread, and its threads wait for memory and
// for each other once for each row. Joined, a thread has 8 to 32 elements, and its waits and its
// shuffles are for all of them at once. A block has a power of two of rows, and at most kElements
// elements.
//
// A launch qualifies if it has only fragments, copies, fills, reductions and parallel loops
// (tiling/row_program.h), reduces rows of fewer than 1024 elements, and if the index of the block
// selects one row of each tensor and fragment. Where the rows of the grid are no multiple of a
// block's, each tensor that it writes must end with the grid. On all targets. A remark says it, and
// the pass option tl.disable_block_fitting turns it off.
ir::Func JoinBlocks(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_JOIN_BLOCKS_H_
