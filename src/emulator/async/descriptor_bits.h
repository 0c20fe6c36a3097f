// Fields of descriptors, and the errors that name them.
#ifndef TILELANG_EMULATOR_ASYNC_DESCRIPTOR_BITS_H_
#define TILELANG_EMULATOR_ASYNC_DESCRIPTOR_BITS_H_

#include <cstdint>
#include <cstdio>
#include <string>

#include "emulator/base/error.h"

namespace tilelang::emulator {

[[noreturn]] inline void IllegalDescriptor(const std::string& message) {
  throw EmulatorError("descriptor", message);
}

inline std::string DescriptorHex(uint64_t bits, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%0*llX", digits, static_cast<unsigned long long>(bits));
  return text;
}

// `width` bits from bit `low` on; fewer than 32.
inline uint32_t DescriptorField(uint64_t bits, int low, int width) {
  return static_cast<uint32_t>(bits >> low) & ((1u << width) - 1);
}

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ASYNC_DESCRIPTOR_BITS_H_
