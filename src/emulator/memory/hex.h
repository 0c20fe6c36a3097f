// Addresses in messages.
#ifndef TILELANG_EMULATOR_MEMORY_HEX_H_
#define TILELANG_EMULATOR_MEMORY_HEX_H_

#include <cstdint>
#include <cstdio>
#include <string>

namespace tilelang::emulator {

// "0x1f4"
inline std::string Hex(uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_MEMORY_HEX_H_
