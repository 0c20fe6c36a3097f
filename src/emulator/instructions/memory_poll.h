// What deadlock reports tell of threads that poll memory.
#pragma once

#include <cstdint>

#include "emulator/core/machine.h"

namespace tilelang::emulator {

// A load or atomic that may be the test of a spin loop; `value` is what it found at `address`.
WaitInfo MemoryPoll(Space space, uint64_t address, uint64_t value);

}  // namespace tilelang::emulator
