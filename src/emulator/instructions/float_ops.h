// Float arithmetic on single values as PTX defines it, shared by the float instruction files.
#ifndef TILELANG_EMULATOR_INSTRUCTIONS_FLOAT_OPS_H_
#define TILELANG_EMULATOR_INSTRUCTIONS_FLOAT_OPS_H_

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>

#include "emulator/core/decoder.h"
#include "emulator/numerics/float_formats.h"

namespace tilelang::emulator {

enum class Arithmetic : uint8_t { kAdd, kSub, kMul, kFma, kDiv, kMin, kMax };

// Modifiers of float arithmetic, and the type(s).
struct FloatModifiers {
  Type type = Type::kNone;
  Type source = Type::kNone;  // of mixed precision: add.f32.bf16
  Rounding rounding = Rounding::kNearestEven;
  bool flush = false, saturate = false, relu = false, nan = false, xorsign = false;
  bool approximate = false, full = false, absolute = false, out_of_bounds = false;
};

// True if one of the modifiers is a float type.
bool HasFloatType(const Decoder& d);
FloatModifiers TakeFloatModifiers(Decoder& d);

// The mode of <cfenv> that rounds so.
inline uint16_t HostRounding(Rounding rounding) {
  switch (rounding) {
    case Rounding::kTowardZero:
      return FE_TOWARDZERO;
    case Rounding::kDown:
      return FE_DOWNWARD;
    case Rounding::kUp:
      return FE_UPWARD;
    default:
      return FE_TONEAREST;
  }
}

inline float CanonicalNan(float value) {
  return value != value ? std::bit_cast<float>(0x7FFFFFFFu) : value;
}

inline float Saturated(float value) {
  return value > 0.0f ? (value > 1.0f ? 1.0f : value) : 0.0f;  // NaN and -0 become +0
}

// a + b for one rounding by kRound. An exact zero sum of opposite signs is -0 only when rounding
// down.
template <Rounding kRound>
inline double SumToOdd(double a, double b) {
  const double sum = AddToOdd(a, b);
  if (kRound == Rounding::kDown && sum == 0 && (a != 0 || std::signbit(a) != std::signbit(sum))) {
    return -0.0;
  }
  return sum;
}

// minimumNumber/maximumNumber (NaN loses) or minimum/maximum (kNan); -0 < +0.
template <bool kMax, bool kNan, typename T>
inline T MinMax(T a, T b) {
  if (a != a || b != b) {
    if (kNan || (a != a && b != b)) return std::numeric_limits<T>::quiet_NaN();
    return a != a ? b : a;
  }
  if (a == b) return std::signbit(a) != kMax ? a : b;
  return (a < b) != kMax ? a : b;
}

// The handlers of each file; nullptr when the combination does not exist.
Handler F32Handler(Arithmetic operation, const FloatModifiers& m);
Handler F32x2Handler(Arithmetic operation, const FloatModifiers& m);
Handler F64Handler(Arithmetic operation, const FloatModifiers& m);
Handler HalfHandler(Arithmetic operation, const FloatModifiers& m);
Handler MixedHandler(Arithmetic operation, const FloatModifiers& m);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_INSTRUCTIONS_FLOAT_OPS_H_
