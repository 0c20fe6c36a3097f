// Pipelined loops whose tiles go from global memory straight to registers.
#ifndef TILELANG_SCHEDULE_LOAD_AHEAD_H_
#define TILELANG_SCHEDULE_LOAD_AHEAD_H_

#include "ir/tile_op.h"

namespace tilelang::schedule {

// Rewrites loops so that registers of the next iteration are loaded while an iteration computes:
//
//   next = X[first]
//   for i: tile = next; next = X[i + 1], if it exists; the other statements of the iteration
//
// `next` has the type of X. A tile of another type is converted in its own iteration, so that
// nothing waits for the load before. One iteration is loaded ahead, whatever the stages, because
// each more needs as many registers again. A remark says for each such tile that it is loaded
// ahead, or why it is not. Loops that load shared tiles or compute gemms do not change.
ir::Stmt LoadAhead(const ir::KernelLaunchNode* launch, int64_t threads);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_LOAD_AHEAD_H_
