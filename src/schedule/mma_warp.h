// The program of the warp that issues gemms by tcgen05.
#ifndef TILELANG_SCHEDULE_MMA_WARP_H_
#define TILELANG_SCHEDULE_MMA_WARP_H_

#include <vector>

#include "schedule/description.h"
#include "schedule/gemm_turns.h"
#include "schedule/ring.h"

namespace tilelang::schedule {

// The part of the body of a launch that the slice of `turns` holds. For each turn the warp waits
// until the threads are ready, and for the tiles of its gemms; a commit says that it is done, and
// others give the slots of tiles back. `results`: of the loops that run ahead of the threads.
// Notes which iteration gemms are of.
ir::Stmt WriteMmaWarp(const GemmTurns& turns, const std::vector<Ring>& rings,
                      const std::vector<Ring>& results, const op::ThreadRange& warp,
                      const ir::Stmt& body, IterationNotes* notes);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_MMA_WARP_H_
