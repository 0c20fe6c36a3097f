// PTX scalar and packed types, and the state spaces.
#ifndef TILELANG_EMULATOR_BASE_TYPES_H_
#define TILELANG_EMULATOR_BASE_TYPES_H_

#include <cstdint>
#include <string_view>

namespace tilelang::emulator {

enum class Type : uint8_t {
  kNone,
  kPred,
  kB8,
  kB16,
  kB32,
  kB64,
  kB128,
  kU8,
  kU16,
  kU32,
  kU64,
  kS8,
  kS16,
  kS32,
  kS64,
  kF16,
  kBF16,
  kTF32,
  kF32,
  kF64,
  kF16x2,
  kBF16x2,
  kF32x2,
  kU16x2,
  kS16x2,
  kE4M3,
  kE5M2,
  kE4M3x2,
  kE5M2x2,
  kE2M1x2,
  kE2M3x2,
  kE3M2x2,
  kUE8M0x2,
  kS2F6x2,
};

enum class Space : uint8_t { kGeneric, kGlobal, kShared, kLocal, kParam, kConst };

// kNone when `name` (without the dot) is no type.
Type ParseType(std::string_view name);
const char* TypeName(Type type);
// Bits of a register operand of this type; 1 for predicates.
int TypeBits(Type type);
bool IsFloat(Type type);
bool IsSigned(Type type);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_BASE_TYPES_H_
