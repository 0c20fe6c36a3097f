// Describes threads that poll memory, for deadlock reports.
#ifndef TILELANG_EMULATOR_INSTRUCTIONS_MEMORY_POLL_H_
#define TILELANG_EMULATOR_INSTRUCTIONS_MEMORY_POLL_H_

#include <cstdint>

#include "emulator/core/machine.h"

namespace tilelang::emulator {

// A load or atomic that may be the test of a spin loop; `value` is what it found at `address`.
WaitInfo MemoryPoll(Space space, uint64_t address, uint64_t value);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_INSTRUCTIONS_MEMORY_POLL_H_
