// Shared tiles of results that take the bytes of the operands of a loop.
#ifndef TILELANG_SCHEDULE_OVERLAY_RESULTS_H_
#define TILELANG_SCHEDULE_OVERLAY_RESULTS_H_

#include "ir/stmt.h"

namespace tilelang::schedule {

// Lets tiles that threads use only after `loop`, which may have turns (schedule/turn_loop.h), take
// the bytes of the tiles that the loop loads. An epilogue stages its result in such a tile, which
// TMA stores:
//
//     load warp   K, V ... K, V │
//     MMA warp            Q·K, P·V ... Q·K, P·V │
//     threads                          softmax ...  │ wait │ tile of the result, TMA store
//     bytes       K, V ─────────────────────────────────── │ the result
//
// After the loop the threads wait for its last GEMMs. A commit completes after all GEMMs that the
// warp has issued, and the warp has waited for each load before the GEMM that reads it. So nobody
// touches the operands any more. Sets memory::kOverlays and memory::kOverlaid, by which the plan of
// shared memory gives both the same bytes.
//
// Keeps a launch as it is
//  * if the loop is inside of another loop, as in persistent kernels: the operands of the next tile
//    are then under way while threads store the result;
//  * if a load of it is a multicast, which writes operands of other blocks;
//  * if the loop has turns and the launch several warpgroups, which may wait for their rows only.
// Blocks of a pair wait for the last GEMM of the pair, which reads operands of both. A tile to
// which other blocks of a cluster send keeps its bytes, because these blocks may be through
// earlier. An operand keeps its bytes if anything besides loads by TMA and GEMMs of the loop
// touches it.
ir::Stmt OverlayResults(const ir::Stmt& launch, const ir::ForNode* loop, bool has_turns);
// Does so for the only pipelined loop of a launch, whose threads have no turns.
ir::Stmt OverlayResults(const ir::Stmt& launch);

// Returns whether a load writes tiles of several blocks.
bool HasMulticast(const ir::Stmt& launch);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_OVERLAY_RESULTS_H_
