// The order of the statements of loops whose gemms by tcgen05 a warp of their own issues.
#ifndef TILELANG_SCHEDULE_GATHER_GEMMS_H_
#define TILELANG_SCHEDULE_GATHER_GEMMS_H_

#include "ir/stmt.h"

namespace tilelang::schedule {

// Gathers tcgen05 gemms in pipelined loops of a launch into batches. Gemms with work of threads in
// between need one handover each between the threads and the tensor core. If dependence allows
// fewer handovers, gemms move together: threads read results and write operands before or after all
// gemms of a batch. The gradients of attention then have one handover per iteration, with all
// operands of dV, dK and dQ in place.
//
// Threads compute values that no gemm of the iteration waits for after the batch. They read results
// of the previous iteration right before the gemms that overwrite these. Gemms that neither need
// threads nor are needed in their iteration stay last. Other statements keep their order, and a
// loop without fewer handovers keeps its order. Remarks name what has moved.
ir::Stmt GatherGemms(const ir::Stmt& launch);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_GATHER_GEMMS_H_
