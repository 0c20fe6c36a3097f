// Wavefronts of shared memory: how often its 32 banks must be read for one instruction of a warp.
#pragma once

#include <cstdint>

namespace tilelang::emulator {

// `addresses` of the lanes in `mask`, each accessing `bytes`. Lanes that read the same word share
// it. Accesses of 8 and 16 bytes are served for half and quarter warps.
int SharedWavefronts(const uint64_t* addresses, uint32_t mask, int bytes);
// Wavefronts without any conflict.
int IdealWavefronts(uint32_t mask, int bytes);

}  // namespace tilelang::emulator
