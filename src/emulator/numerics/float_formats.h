// Exact conversion between the floating-point formats of PTX. Every format is described by one
// constant, and one encoder and one decoder serve them all: a value travels as a double, which
// holds every value of every narrower format exactly, and is rounded once.
#ifndef TILELANG_EMULATOR_NUMERICS_FLOAT_FORMATS_H_
#define TILELANG_EMULATOR_NUMERICS_FLOAT_FORMATS_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tilelang::emulator {

// PTX .rn, .rz, .rm, .rp and .rna.
enum class Rounding : uint8_t { kNearestEven, kTowardZero, kDown, kUp, kNearestAway };

// The meaning of the codes with the largest exponent.
enum class SpecialValues : uint8_t {
  kIeee,     // infinity and NaN
  kNanOnly,  // the all-ones code alone is NaN; there is no infinity (e4m3)
  kNone,     // every code is a number (e2m3, e3m2, e2m1)
};

struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  bool is_signed;
  SpecialValues special;

  constexpr int width() const { return is_signed + exponent_bits + mantissa_bits; }
  constexpr uint32_t all_ones() const { return (1u << (exponent_bits + mantissa_bits)) - 1; }
  constexpr uint32_t sign_bit() const { return is_signed ? all_ones() + 1 : 0; }
  constexpr uint32_t infinity() const { return all_ones() - ((1u << mantissa_bits) - 1); }
  constexpr uint32_t max_finite() const {
    if (special == SpecialValues::kIeee) return infinity() - 1;
    return special == SpecialValues::kNanOnly ? all_ones() - 1 : all_ones();
  }
  // PTX's canonical NaN; a format without NaN gets its largest number instead.
  constexpr uint32_t canonical_nan() const { return all_ones(); }
  constexpr int min_exponent() const { return 1 - bias; }
};

inline constexpr FloatFormat kF32{8, 23, 127, true, SpecialValues::kIeee};
// tf32 values live in 32-bit registers; its code here is the upper 19 bits of such a register.
inline constexpr FloatFormat kTf32{8, 10, 127, true, SpecialValues::kIeee};
inline constexpr FloatFormat kF16{5, 10, 15, true, SpecialValues::kIeee};
inline constexpr FloatFormat kBf16{8, 7, 127, true, SpecialValues::kIeee};
inline constexpr FloatFormat kE5m2{5, 2, 15, true, SpecialValues::kIeee};
inline constexpr FloatFormat kE4m3{4, 3, 7, true, SpecialValues::kNanOnly};
inline constexpr FloatFormat kE3m2{3, 2, 3, true, SpecialValues::kNone};
inline constexpr FloatFormat kE2m3{2, 3, 1, true, SpecialValues::kNone};
inline constexpr FloatFormat kE2m1{2, 1, 1, true, SpecialValues::kNone};
inline constexpr FloatFormat kUe4m3{4, 3, 7, false, SpecialValues::kNanOnly};

// Returns whether a discarded remainder rounds the kept magnitude up. `half` is the weight of the
// first discarded bit.
constexpr bool RoundsUp(Rounding mode, bool negative, bool odd, uint64_t remainder, uint64_t half) {
  switch (mode) {
    case Rounding::kNearestEven:
      return remainder > half || (remainder == half && odd);
    case Rounding::kNearestAway:
      return remainder >= half;
    case Rounding::kTowardZero:
      return false;
    case Rounding::kDown:
      return negative && remainder != 0;
    case Rounding::kUp:
      return !negative && remainder != 0;
  }
  return false;
}

// The code of a magnitude beyond the largest number.
constexpr uint32_t OverflowCode(const FloatFormat& f, Rounding mode, bool negative,
                                bool satfinite) {
  if (satfinite || f.special == SpecialValues::kNone) return f.max_finite();
  const bool to_max = mode == Rounding::kTowardZero || (mode == Rounding::kDown && !negative) ||
                      (mode == Rounding::kUp && negative);
  if (to_max) return f.max_finite();
  return f.special == SpecialValues::kIeee ? f.infinity() : f.canonical_nan();
}

// Encodes `value` with one rounding. Subnormals of the target are produced exactly. With
// `satfinite` magnitudes beyond the largest number, infinity too, become the largest number.
// NaN becomes the canonical NaN. Negative values have no code in an unsigned format: give |value|.
inline uint32_t EncodeFloat(const FloatFormat& f, double value, Rounding mode, bool satfinite) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const bool negative = bits >> 63;
  const uint32_t sign = negative ? f.sign_bit() : 0;
  const int biased = static_cast<int>(bits >> 52) & 0x7FF;
  uint64_t significand = bits & ((uint64_t{1} << 52) - 1);
  if (biased == 0x7FF) {
    if (significand != 0) return f.canonical_nan();
    if (satfinite || f.special == SpecialValues::kNone) return sign | f.max_finite();
    return f.special == SpecialValues::kIeee ? sign | f.infinity() : f.canonical_nan();
  }
  if (biased != 0) significand |= uint64_t{1} << 52;
  const int exponent = (biased == 0 ? 1 : biased) - 1023;
  const int kept = exponent > f.min_exponent() ? exponent : f.min_exponent();
  // Weight of the target's last place over that of the significand, at least 52 - 23.
  const int shift = kept - f.mantissa_bits - (exponent - 52);
  uint64_t magnitude = 0;
  uint64_t remainder = significand;
  uint64_t half = uint64_t{1} << 62;
  if (shift < 63) {
    magnitude = significand >> shift;
    remainder = significand & ((uint64_t{1} << shift) - 1);
    half = uint64_t{1} << (shift - 1);
  }
  magnitude += RoundsUp(mode, negative, magnitude & 1, remainder, half);
  const uint64_t code =
      (static_cast<uint64_t>(kept - f.min_exponent()) << f.mantissa_bits) + magnitude;
  if (code > f.max_finite()) return sign | OverflowCode(f, mode, negative, satfinite);
  return sign | static_cast<uint32_t>(code);
}

// The value of a code; bits above the format's width are ignored.
inline double DecodeFloat(const FloatFormat& f, uint32_t code) {
  const uint32_t magnitude = code & f.all_ones();
  const bool negative = (code & f.sign_bit()) != 0;
  double value;
  if (magnitude > f.max_finite()) {
    const bool infinite = f.special == SpecialValues::kIeee && magnitude == f.infinity();
    value = infinite ? std::numeric_limits<double>::infinity()
                     : std::numeric_limits<double>::quiet_NaN();
  } else {
    const int biased = static_cast<int>(magnitude >> f.mantissa_bits);
    const uint32_t fraction = magnitude & ((1u << f.mantissa_bits) - 1);
    const uint32_t significand = biased == 0 ? fraction : fraction | (1u << f.mantissa_bits);
    value = std::ldexp(static_cast<double>(significand),
                       (biased == 0 ? 1 : biased) - f.bias - f.mantissa_bits);
  }
  return negative ? -value : value;
}

// ue8m0: code e is 2^(e-127), 255 is NaN. The sign is ignored, as there is none to keep; there is
// no zero, so small magnitudes become 2^-127. PTX has .rz and .rp.
inline uint32_t EncodeUe8m0(double value, Rounding mode, bool satfinite) {
  if (std::isnan(value)) return 0xFF;
  const double magnitude = std::fabs(value);
  if (std::isinf(value)) return satfinite || mode == Rounding::kTowardZero ? 0xFE : 0xFF;
  if (magnitude <= std::ldexp(1.0, -127)) return 0;
  int exponent = std::ilogb(magnitude);
  if (mode == Rounding::kUp && std::ldexp(1.0, exponent) != magnitude) ++exponent;
  if (exponent > 127) return satfinite || mode == Rounding::kTowardZero ? 0xFE : 0xFF;
  return static_cast<uint32_t>(exponent + 127);
}

inline double DecodeUe8m0(uint32_t code) {
  code &= 0xFF;
  if (code == 0xFF) return std::numeric_limits<double>::quiet_NaN();
  return std::ldexp(1.0, static_cast<int>(code) - 127);
}

// Fast paths for the formats that ordinary arithmetic uses.

inline float Bf16ToF32(uint16_t code) { return std::bit_cast<float>(uint32_t{code} << 16); }

inline float F16ToF32(uint16_t code) {
  const uint32_t magnitude = code & 0x7FFFu;
  // Interpreting the shifted bits as f32 leaves the exponent 112 too small; the product is exact,
  // also for subnormals.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  const uint32_t special = 0x7F800000u | magnitude << 13;
  const uint32_t bits = magnitude >= 0x7C00u ? special : std::bit_cast<uint32_t>(scaled);
  return std::bit_cast<float>(bits | uint32_t{code & 0x8000u} << 16);
}

// .rn without saturation.
inline uint16_t F32ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t code = (bits + 0x7FFFu + ((bits >> 16) & 1)) >> 16;
  return static_cast<uint16_t>((bits & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FFFu : code);
}

inline uint16_t F32ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  const uint32_t normal = (magnitude - 0x38000000u + 0xFFFu + (magnitude >> 13 & 1)) >> 13;
  // The last place of this sum is that of f16's subnormals.
  const float sum = std::bit_cast<float>(magnitude) + 0.5f;
  const uint32_t subnormal = std::bit_cast<uint32_t>(sum) - 0x3F000000u;
  uint32_t code = magnitude < 0x38800000u ? subnormal : normal;
  code = (magnitude >= 0x47800000u ? 0x7C00u : code) | (bits >> 16 & 0x8000u);
  return static_cast<uint16_t>(magnitude > 0x7F800000u ? 0x7FFFu : code);
}

// .ftz: subnormals become zero of the same sign.
inline float FlushSubnormal(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return (bits & 0x7F800000u) == 0 ? std::bit_cast<float>(bits & 0x80000000u) : value;
}

// Sums and products rounded to odd: the last bit records whether anything was lost, so that a
// second rounding to a format at least two bits narrower gives the correctly rounded result of the
// exact value (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).

// Moves a double that was rounded to nearest to the odd neighbour enclosing the exact value
// result + error, where only the sign of `error` matters.
inline double RoundedToOdd(double result, double error) {
  const uint64_t bits = std::bit_cast<uint64_t>(result);
  if (error == 0 || !std::isfinite(result) || (bits & 1)) return result;
  const bool grows = (error > 0) == (result > 0);
  return std::bit_cast<double>(grows ? bits + 1 : bits - 1);
}

// Without branches: the odd float next to the exact value nearest + error.
template <typename Error>
inline float OddNeighbour(float nearest, Error error) {
  const int32_t bits = std::bit_cast<int32_t>(nearest);
  const int32_t step = (error < 0) == (bits < 0) ? 1 : -1;
  const bool lost = error < 0 || error > 0;
  return std::bit_cast<float>(bits + (lost && (bits & 1) == 0 ? step : 0));
}

// Returns the rounding error of the sum of a and b.
template <typename T>
inline T ErrorOfSum(T a, T b, T sum) {
  const T b_part = sum - a;
  return (a - (sum - b_part)) + (b - b_part);
}

inline double AddToOdd(double a, double b) {
  const double sum = a + b;
  return RoundedToOdd(sum, ErrorOfSum(a, b, sum));
}

// The sum in f32.
inline float F32AddToOdd(float a, float b) {
  const float sum = a + b;
  return OddNeighbour(sum, ErrorOfSum(a, b, sum));
}

inline double DivideToOdd(double a, double b) {
  const double quotient = a / b;
  if (!std::isfinite(quotient) || !std::isfinite(b)) return quotient;
  const double residual = std::fma(-quotient, b, a);
  return RoundedToOdd(quotient, b < 0 ? -residual : residual);
}

inline double SquareRootToOdd(double a) {
  const double root = std::sqrt(a);
  if (!std::isfinite(root)) return root;
  return RoundedToOdd(root, std::fma(-root, root, a));
}

inline float RoundToF32(double value, Rounding mode) {
  return std::bit_cast<float>(EncodeFloat(kF32, value, mode, false));
}

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_NUMERICS_FLOAT_FORMATS_H_
