// half_t (IEEE binary16) and bfloat16_t. Conversions round to nearest even; +, -, * and fma are
// single instructions on the type itself, division and comparisons go through float: a float
// quotient of two such numbers, rounded again, is the correctly rounded quotient.
#pragma once

namespace tl {

// Returns `value` as a float, rounded to odd: rounding the result again to at most 22 bits gives
// what one rounding of `value` would.
template <typename T>
TL_DEVICE float sticky_float(float toward_zero, T back, T value) {
  uint32_t inexact = back != value;
  return __uint_as_float(__float_as_uint(toward_zero) | inexact);
}
TL_DEVICE float to_odd(double x) {
  float f = __double2float_rz(x);
  return sticky_float(f, static_cast<double>(f), x);
}
TL_DEVICE float to_odd(int32_t x) {
  float f = __int2float_rz(x);
  return sticky_float(f, __float2int_rz(f), x);
}
TL_DEVICE float to_odd(uint32_t x) {
  float f = __uint2float_rz(x);
  return sticky_float(f, __float2uint_rz(f), x);
}
TL_DEVICE float to_odd(int64_t x) {
  float f = __ll2float_rz(x);
  return sticky_float(f, __float2ll_rz(f), x);
}
TL_DEVICE float to_odd(uint64_t x) {
  float f = __ull2float_rz(x);
  return sticky_float(f, __float2ull_rz(f), x);
}

// Returns an integer of 8 bits as a float, without an instruction that converts: those take four
// times as long as others. The low bits of 2^23 + x are x.
TL_DEVICE float float_of(uint8_t x) { return __uint_as_float(0x4b000000u | x) - 8388608.0f; }
TL_DEVICE float float_of(int8_t x) {
  return __uint_as_float(0x4b000000u | (static_cast<uint8_t>(x) ^ 0x80u)) - 8388736.0f;
}

// Returns the bits of a constant rounded to `fraction` fraction bits and an exponent of `exponent`
// bits (at most 16 bits in all), to nearest even; magnitudes beyond the range become infinity.
__device__ consteval uint16_t round_constant(double value, int exponent, int fraction) {
  uint64_t bits = __builtin_bit_cast(uint64_t, value);
  uint16_t sign = static_cast<uint16_t>((bits >> 63) << (exponent + fraction));
  uint64_t magnitude = bits & 0x7fffffffffffffffull;
  uint64_t infinity = ((1ull << exponent) - 1) << fraction;
  int e = static_cast<int>(magnitude >> 52) - 1023 + ((1 << (exponent - 1)) - 1);
  if (magnitude == 0 || e < -fraction) return sign;
  uint64_t significand = (magnitude & 0xfffffffffffffull) | 1ull << 52;
  int drop = 52 - fraction + (e < 1 ? 1 - e : 0);
  uint64_t kept = significand >> drop;
  uint64_t rest = significand & ((1ull << drop) - 1);
  uint64_t tie = 1ull << (drop - 1);
  if (rest > tie || (rest == tie && (kept & 1))) ++kept;
  // A normal number's leading 1 adds one to the exponent field.
  uint64_t result = kept + (e < 1 ? 0 : static_cast<uint64_t>(e - 1) << fraction);
  return static_cast<uint16_t>(sign | (result > infinity ? infinity : result));
}

}  // namespace tl

struct half_t {
  uint16_t raw;

  half_t() = default;
  TL_DEVICE explicit half_t(float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(raw) : "f"(x)); }
  TL_DEVICE explicit half_t(double x) { asm("cvt.rn.f16.f64 %0, %1;" : "=h"(raw) : "d"(x)); }
  // The low bits of 2^10 + x are x.
  TL_DEVICE explicit half_t(uint8_t x) {
    uint16_t sum = static_cast<uint16_t>(0x6400u | x);
    asm("sub.rn.f16 %0, %1, %2;" : "=h"(raw) : "h"(sum), "h"(uint16_t{0x6400}));
  }
  TL_DEVICE explicit half_t(int8_t x) {
    uint16_t sum = static_cast<uint16_t>(0x6400u | (static_cast<uint8_t>(x) ^ 0x80u));
    asm("sub.rn.f16 %0, %1, %2;" : "=h"(raw) : "h"(sum), "h"(uint16_t{0x6480}));
  }
  TL_DEVICE explicit half_t(int32_t x) { asm("cvt.rn.f16.s32 %0, %1;" : "=h"(raw) : "r"(x)); }
  TL_DEVICE explicit half_t(uint32_t x) { asm("cvt.rn.f16.u32 %0, %1;" : "=h"(raw) : "r"(x)); }
  TL_DEVICE explicit half_t(int64_t x) { asm("cvt.rn.f16.s64 %0, %1;" : "=h"(raw) : "l"(x)); }
  TL_DEVICE explicit half_t(uint64_t x) { asm("cvt.rn.f16.u64 %0, %1;" : "=h"(raw) : "l"(x)); }
  TL_DEVICE explicit operator float() const {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(raw));
    return x;
  }
  static TL_DEVICE constexpr half_t from_bits(uint16_t bits) {
    half_t x;
    x.raw = bits;
    return x;
  }
};

struct bfloat16_t {
  uint16_t raw;

  bfloat16_t() = default;
  TL_DEVICE explicit bfloat16_t(float x) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(raw) : "f"(x)); }
  TL_DEVICE explicit bfloat16_t(double x) : bfloat16_t(tl::to_odd(x)) {}
  // A bfloat16 has 8 bits of an integer, and a float has 16.
  TL_DEVICE explicit bfloat16_t(uint8_t x)
      : raw(static_cast<uint16_t>(__float_as_uint(tl::float_of(x)) >> 16)) {}
  TL_DEVICE explicit bfloat16_t(int8_t x)
      : raw(static_cast<uint16_t>(__float_as_uint(tl::float_of(x)) >> 16)) {}
  TL_DEVICE explicit bfloat16_t(uint16_t x) : bfloat16_t(static_cast<float>(x)) {}
  TL_DEVICE explicit bfloat16_t(int16_t x) : bfloat16_t(static_cast<float>(x)) {}
  TL_DEVICE explicit bfloat16_t(int32_t x) : bfloat16_t(tl::to_odd(x)) {}
  TL_DEVICE explicit bfloat16_t(uint32_t x) : bfloat16_t(tl::to_odd(x)) {}
  TL_DEVICE explicit bfloat16_t(int64_t x) : bfloat16_t(tl::to_odd(x)) {}
  TL_DEVICE explicit bfloat16_t(uint64_t x) : bfloat16_t(tl::to_odd(x)) {}
  TL_DEVICE explicit operator float() const {
    return __uint_as_float(static_cast<uint32_t>(raw) << 16);
  }
  static TL_DEVICE constexpr bfloat16_t from_bits(uint16_t bits) {
    bfloat16_t x;
    x.raw = bits;
    return x;
  }
};

// Constants: 1.5_h, 1.5_bf.
__device__ consteval half_t operator""_h(long double x) {
  return half_t::from_bits(tl::round_constant(static_cast<double>(x), 5, 10));
}
__device__ consteval bfloat16_t operator""_bf(long double x) {
  return bfloat16_t::from_bits(tl::round_constant(static_cast<double>(x), 8, 7));
}

// Conversions of float32 in a rounding mode: toward zero, up or down.
namespace tl {
#define TL_CONVERT(name, type, round, instruction)      \
  TL_DEVICE type name##_##round(float x) {              \
    type y;                                             \
    asm(instruction " %0, %1;" : "=h"(y.raw) : "f"(x)); \
    return y;                                           \
  }
TL_CONVERT(to_float16, half_t, rz, "cvt.rz.f16.f32")
TL_CONVERT(to_float16, half_t, ru, "cvt.rp.f16.f32")
TL_CONVERT(to_float16, half_t, rd, "cvt.rm.f16.f32")
TL_CONVERT(to_bfloat16, bfloat16_t, rz, "cvt.rz.bf16.f32")
#undef TL_CONVERT
}  // namespace tl

// The sign is a bit.
#define TL_SIGN_16(T)                                            \
  TL_DEVICE constexpr T operator-(T a) {                         \
    return T::from_bits(static_cast<uint16_t>(a.raw ^ 0x8000u)); \
  }                                                              \
  TL_DEVICE T abs(T a) { return T::from_bits(static_cast<uint16_t>(a.raw & 0x7fffu)); }
TL_SIGN_16(half_t)
TL_SIGN_16(bfloat16_t)
#undef TL_SIGN_16

#define TL_BINARY_16(T, name, instruction)                                  \
  TL_DEVICE T name(T a, T b) {                                              \
    T r;                                                                    \
    asm(instruction " %0, %1, %2;" : "=h"(r.raw) : "h"(a.raw), "h"(b.raw)); \
    return r;                                                               \
  }
#define TL_TERNARY_16(T, name, instruction)                                                 \
  TL_DEVICE T name(T a, T b, T c) {                                                         \
    T r;                                                                                    \
    asm(instruction " %0, %1, %2, %3;" : "=h"(r.raw) : "h"(a.raw), "h"(b.raw), "h"(c.raw)); \
    return r;                                                                               \
  }

TL_BINARY_16(half_t, operator+, "add.rn.f16")
TL_BINARY_16(half_t, operator-, "sub.rn.f16")
TL_BINARY_16(half_t, operator*, "mul.rn.f16")
TL_TERNARY_16(half_t, fma, "fma.rn.f16")
TL_BINARY_16(half_t, min, "min.f16")
TL_BINARY_16(half_t, max, "max.f16")
TL_BINARY_16(half_t, min_nan, "min.NaN.f16")
TL_BINARY_16(half_t, max_nan, "max.NaN.f16")

TL_TERNARY_16(bfloat16_t, fma, "fma.rn.bf16")
TL_BINARY_16(bfloat16_t, min, "min.bf16")
TL_BINARY_16(bfloat16_t, max, "max.bf16")
TL_BINARY_16(bfloat16_t, min_nan, "min.NaN.bf16")
TL_BINARY_16(bfloat16_t, max_nan, "max.NaN.bf16")
#if __CUDA_ARCH__ >= 900
TL_BINARY_16(bfloat16_t, operator+, "add.rn.bf16")
TL_BINARY_16(bfloat16_t, operator-, "sub.rn.bf16")
TL_BINARY_16(bfloat16_t, operator*, "mul.rn.bf16")
#else
// One rounding each; the added zero is negative so that the sign of a zero product stays.
TL_DEVICE bfloat16_t operator+(bfloat16_t a, bfloat16_t b) { return fma(a, 1.0_bf, b); }
TL_DEVICE bfloat16_t operator-(bfloat16_t a, bfloat16_t b) { return fma(b, -1.0_bf, a); }
TL_DEVICE bfloat16_t operator*(bfloat16_t a, bfloat16_t b) { return fma(a, b, -0.0_bf); }
#endif

#define TL_VIA_FLOAT_16(T)                                                     \
  TL_DEVICE T operator/(T a, T b) { return T(__fdiv_rn(float(a), float(b))); } \
  TL_DEVICE bool operator==(T a, T b) { return float(a) == float(b); }         \
  TL_DEVICE bool operator!=(T a, T b) { return float(a) != float(b); }         \
  TL_DEVICE bool operator<(T a, T b) { return float(a) < float(b); }           \
  TL_DEVICE bool operator<=(T a, T b) { return float(a) <= float(b); }         \
  TL_DEVICE bool operator>(T a, T b) { return float(a) > float(b); }           \
  TL_DEVICE bool operator>=(T a, T b) { return float(a) >= float(b); }
TL_VIA_FLOAT_16(half_t)
TL_VIA_FLOAT_16(bfloat16_t)
#undef TL_VIA_FLOAT_16
#undef TL_BINARY_16
#undef TL_TERNARY_16
