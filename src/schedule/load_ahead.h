// Pipelined loops whose tiles go from global memory straight to registers.
#ifndef TILELANG_SCHEDULE_LOAD_AHEAD_H_
#define TILELANG_SCHEDULE_LOAD_AHEAD_H_

#include "ir/tile_op.h"

namespace tilelang::schedule {

// The launch with those loops so written that registers of the next iteration are loaded while an
// iteration computes:
//
//   next = X[first]
//   for i: tile = next; next = X[i + 1], where there is one; what else the iteration does
//
// `next` has the type of X: a tile of another type is converted in its own iteration, so that
// nothing waits for the load before. One iteration is ahead, whatever the stages: each more takes
// as many registers again. A remark says of each such tile that it is loaded ahead, or why it is
// not. Loops that load shared tiles or compute gemms stay as they are.
ir::Stmt LoadAhead(const ir::KernelLaunchNode* launch, int64_t threads);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_LOAD_AHEAD_H_
