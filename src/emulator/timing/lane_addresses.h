// Finds the memory that the lanes of a warp access together.
#ifndef TILELANG_EMULATOR_TIMING_LANE_ADDRESSES_H_
#define TILELANG_EMULATOR_TIMING_LANE_ADDRESSES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "emulator/timing/memory_system.h"

namespace tilelang::emulator {

// Returns the distance of lanes if all lanes of a warp access a row of bytes, `bytes` each, or all
// the same bytes, as most do. Returns nothing otherwise.
std::optional<uint64_t> StepOf(const uint64_t* addresses, uint32_t mask, int bytes);

// The lines of global memory that lanes access, `bytes` each.
void CollectLines(const uint64_t* addresses, uint32_t mask, int bytes,
                  std::vector<LineAccess>* lines);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_TIMING_LANE_ADDRESSES_H_
