#ifndef TILELANG_TILING_STREAM_ROWS_H_
#define TILELANG_TILING_STREAM_ROWS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Streams the rows of launches that load tiles to registers, compute and store, such as a norm or a
// softmax of rows. A few blocks an SM compute one tile of the grid after another, and TMA brings
// the tiles of their next iterations to shared memory meanwhile:
//
//   block b: X[b] -> x; ...   ->   for tile = b, b + blocks, ... in pipelined:
//                                    X[tile] -> shared; shared -> x; ...
//
// With one tile a block, HBM waits while blocks compute and store: all blocks of a wave begin
// together. A stream keeps kStreamBytes of loads under way on each SM, whatever its threads do.
//
// Blocks that reduce rows have no more threads than their rows keep busy.
//
// Other blocks that reduce rows of at most 40 elements a thread get 72 registers a thread at most,
// so that more of them wait for memory at a time.
//
// A launch qualifies if it has only fragments, copies, fills, reductions and parallel loops, if no
// block can see what another one does, if TMA can load its tiles, and if its grid is more than
// kRounds times the blocks that run at a time. For targets with tcgen05, whose HBM needs most bytes
// in flight for each SM; on sm_80, sm_90a and sm_120a blocks stay as written. A remark says it, and
// the pass option tl.disable_persistent_blocks turns it off.
ir::Func StreamRows(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_STREAM_ROWS_H_
