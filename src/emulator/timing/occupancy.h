// Computes how many CTAs of a launch an SM holds at once.
#ifndef TILELANG_EMULATOR_TIMING_OCCUPANCY_H_
#define TILELANG_EMULATOR_TIMING_OCCUPANCY_H_

#include <cstdint>

#include "emulator/core/launch.h"
#include "emulator/timing/figures.h"
#include "emulator/timing/op_cost.h"

namespace tilelang::emulator {

struct Occupancy {
  int ctas = 1;               // of an SM
  const char* limit = "";     // what allows no more
  int registers = 0;          // of a thread
  int threads = 0;            // of a CTA
  uint32_t shared_bytes = 0;  // of a CTA, the system's part included
  int groups = 1;             // SMs that take a CTA each, of a cluster: SMs / cluster
};

// `registers`: of 32 bits that a thread needs.
Occupancy OccupancyOf(const Launch& launch, const Figures& figures, int registers);
// Returns the registers of a thread that the launch names. Otherwise estimates them by the
// registers that are live at the same time, and some more for additions of ptxas.
int RegistersOf(const Launch& launch, const CostTable& costs);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_TIMING_OCCUPANCY_H_
