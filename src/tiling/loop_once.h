// Loops of one iteration for GEMMs whose K is one step, so that their tiles can be chosen as
// others.
#ifndef TILELANG_TILING_LOOP_ONCE_H_
#define TILELANG_TILING_LOOP_ONCE_H_

#include "ir/stmt.h"

namespace tilelang::tiling {

// Returns the launch with its GEMMs and the loads of their operands in a pipelined loop of one
// iteration; the launch itself if a loop has them already, if other statements stand between, or if
// it has few blocks.
ir::KernelLaunch WithLoopOnce(const ir::KernelLaunchNode* launch);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_LOOP_ONCE_H_
