// The order of the statements of loops whose gemms by tcgen05 a warp of their own issues.
#ifndef TILELANG_SCHEDULE_GATHER_GEMMS_H_
#define TILELANG_SCHEDULE_GATHER_GEMMS_H_

#include "ir/stmt.h"

namespace tilelang::schedule {

// In pipelined loops of a launch: gemms by tcgen05 between which threads work need a handover
// between these and the tensor core each. Where fewer would do, by dependence, gemms move together:
// threads read results, and write operands, before or after all gemms of a batch. So the gradients
// of attention have one handover an iteration, with all operands of dV, dK and dQ in place.
//
// Threads do what no gemm of the iteration waits for behind the batch that they could delay, and
// what only reads results of the iteration before right before the gemms that overwrite these.
// Gemms that neither need threads nor are needed in their iteration stay last. Other statements
// keep their order, and loops without fewer handovers theirs. Remarks say what moved.
ir::Stmt GatherGemms(const ir::Stmt& launch);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_GATHER_GEMMS_H_
