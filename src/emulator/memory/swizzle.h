// The XOR swizzles of shared memory, shared by TMA and the tensor core's descriptors.
#ifndef TILELANG_EMULATOR_MEMORY_SWIZZLE_H_
#define TILELANG_EMULATOR_MEMORY_SWIZZLE_H_

#include <cstdint>

namespace tilelang::emulator {

// The CUDA driver's CUtensorMapSwizzle has the same values.
enum class Swizzle : uint8_t {
  kNone = 0,
  k32B = 1,
  k64B = 2,
  k128B = 3,
  k128BAtom32B = 4,
  k128BAtom32BFlip8B = 5,
  k128BAtom64B = 6,
};

// Bytes of a row of the pattern; 16 without a swizzle.
constexpr int SwizzleWidth(Swizzle mode) {
  switch (mode) {
    case Swizzle::kNone:
      return 16;
    case Swizzle::k32B:
      return 32;
    case Swizzle::k64B:
      return 64;
    default:
      return 128;
  }
}

// The pattern repeats after this many bytes; buffers are aligned to it.
constexpr int SwizzleRepeat(Swizzle mode) {
  return mode == Swizzle::kNone ? 16 : 8 * SwizzleWidth(mode);
}

// Returns the place of the byte of logical shared address `address`.
constexpr uint32_t SwizzleAddress(Swizzle mode, uint32_t address) {
  switch (mode) {
    case Swizzle::kNone:
    case Swizzle::k128BAtom64B:  // TensorMap::Validate refuses it
      return address;
    case Swizzle::k32B:
      return address ^ ((address >> 3) & 0x10);
    case Swizzle::k64B:
      return address ^ ((address >> 3) & 0x30);
    case Swizzle::k128B:
      return address ^ ((address >> 3) & 0x70);
    case Swizzle::k128BAtom32B:
      return address ^ ((address >> 2) & 0x60);
    case Swizzle::k128BAtom32BFlip8B:
      return address ^ ((address >> 2) & 0x60) ^ ((address >> 4) & 0x08);
  }
  return address;
}

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_MEMORY_SWIZZLE_H_
