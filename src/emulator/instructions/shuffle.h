// The lanes from which shfl takes values.
#ifndef TILELANG_EMULATOR_INSTRUCTIONS_SHUFFLE_H_
#define TILELANG_EMULATOR_INSTRUCTIONS_SHUFFLE_H_

#include <cstdint>

namespace tilelang::emulator {

enum class Shuffle : uint8_t { kUp, kDown, kBfly, kIdx };

// The lane that `lane` reads from, and 1 or 0: in range or not as PTX ISA, shfl.sync defines it.
template <Shuffle kMode>
[[gnu::always_inline]] inline uint32_t SourceLane(uint32_t lane, uint32_t b, uint32_t c,
                                                  uint32_t* in_range) {
  uint32_t segment = (c >> 8) & 31, n = b & 31;
  uint32_t top = (lane & segment) | (c & 31 & ~segment);
  int32_t source =
      static_cast<int32_t>(kMode == Shuffle::kUp     ? lane - n
                           : kMode == Shuffle::kDown ? lane + n
                           : kMode == Shuffle::kBfly ? lane ^ n
                                                     : (lane & segment) | (n & ~segment));
  int32_t limit = static_cast<int32_t>(top);
  *in_range = (kMode == Shuffle::kUp ? source >= limit : source <= limit) ? 1 : 0;
  return *in_range ? static_cast<uint32_t>(source) & 31 : lane;
}

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_INSTRUCTIONS_SHUFFLE_H_
