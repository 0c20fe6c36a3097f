// Finds which CTAs of a wave read the same memory, from their first reads.
#ifndef TILELANG_EMULATOR_TIMING_PROBE_H_
#define TILELANG_EMULATOR_TIMING_PROBE_H_

#include "emulator/core/launch.h"
#include "emulator/timing/memory_system.h"
#include "emulator/timing/op_cost.h"

namespace tilelang::emulator {

// Runs the first instructions of `clusters` clusters, up to their first writes of global memory,
// and notes what they read. If it runs all clusters of the first wave, it also runs some of the
// next `wave`. Leaves no trace in the launch.
void ProbeSharing(Launch& launch, const CostTable& costs, uint64_t clusters, uint64_t wave,
                  Sharing* sharing);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_TIMING_PROBE_H_
