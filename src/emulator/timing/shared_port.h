// Wavefronts of shared memory: how often its 32 banks must be read for one instruction of a warp.
#ifndef TILELANG_EMULATOR_TIMING_SHARED_PORT_H_
#define TILELANG_EMULATOR_TIMING_SHARED_PORT_H_

#include <cstdint>

namespace tilelang::emulator {

// Returns the wavefronts of lanes in `mask` that access `bytes` each at their `addresses` +
// `shift`. Lanes that read the same word share it. Accesses of 8 and 16 bytes are served for half
// and quarter warps, and loads for two of these parts at once if they meet no conflict.
int SharedWavefronts(const uint64_t* addresses, uint32_t mask, int bytes, int shift = 0,
                     bool load = false);
// Wavefronts without any conflict.
int IdealWavefronts(uint32_t mask, int bytes);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_TIMING_SHARED_PORT_H_
