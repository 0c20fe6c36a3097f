// 8-bit floats: fp8_e4_t (e4m3, no infinity) and fp8_e5_t (e5m2). Conversions to them round to
// nearest even and saturate to the largest finite value; NaN stays NaN. There is no arithmetic
// on them in hardware: operators go through float and round the result.
#pragma once

namespace tl {

// Returns a finite float of magnitude at most `largest`, rounded to `fraction` fraction bits, or
// fewer below the smallest normal 2^(1 - bias); the bits of the small float without its sign.
TL_DEVICE uint32_t round_to_small(float magnitude, int fraction, int bias, float largest) {
  magnitude = fminf(magnitude, largest);
  int exponent = static_cast<int>(__float_as_uint(magnitude) >> 23) - 127;
  int lowest = exponent < 1 - bias ? 1 - bias : exponent;
  // Adding and subtracting 1.5 * 2^k leaves a multiple of 2^(k - 23), rounded to nearest even.
  float unit = __uint_as_float(static_cast<uint32_t>(lowest - fraction + 23 + 127) << 23) * 1.5f;
  float rounded = __fsub_rn(__fadd_rn(magnitude, unit), unit);
  int e = static_cast<int>(__float_as_uint(rounded) >> 23) - 127;
  if (e < 1 - bias) {  // subnormal: a multiple of 2^(1 - bias - fraction)
    float scale = __uint_as_float(static_cast<uint32_t>(bias - 1 + fraction + 127) << 23);
    return static_cast<uint32_t>(rounded * scale);
  }
  uint32_t bits = __float_as_uint(rounded) >> (23 - fraction) & ((1u << fraction) - 1);
  return static_cast<uint32_t>(e + bias) << fraction | bits;
}
TL_DEVICE uint8_t small_float(float x, int fraction, int bias, float largest, uint32_t nan) {
  uint32_t sign = __float_as_uint(x) >> 24 & 0x80u;
  float magnitude = __uint_as_float(__float_as_uint(x) & 0x7fffffffu);
  uint32_t bits = x != x ? nan : round_to_small(magnitude, fraction, bias, largest);
  return static_cast<uint8_t>((x != x ? 0 : sign) | bits);
}

}  // namespace tl

struct fp8_e4_t {
  uint8_t raw;

  fp8_e4_t() = default;
  TL_DEVICE explicit fp8_e4_t(float x) {
#if __CUDA_ARCH__ >= 890
    uint16_t pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, 0f00000000, %1;" : "=h"(pair) : "f"(x));
    raw = static_cast<uint8_t>(pair);
#else
    raw = tl::small_float(x, 3, 7, 448.0f, 0x7f);
#endif
  }
  template <typename T>
  TL_DEVICE explicit fp8_e4_t(T x) : fp8_e4_t(tl::to_odd(x)) {}
  TL_DEVICE explicit operator float() const {
#if __CUDA_ARCH__ >= 890
    uint32_t pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<uint16_t>(raw)));
    return float(half_t::from_bits(static_cast<uint16_t>(pair)));
#else
    if ((raw & 0x7f) == 0x7f) return NAN;
    // A half's exponent is biased by 8 more: subnormals come out right too.
    half_t shifted =
        half_t::from_bits(static_cast<uint16_t>((raw & 0x80) << 8 | (raw & 0x7f) << 7));
    return float(shifted) * 256.0f;
#endif
  }
};

struct fp8_e5_t {
  uint8_t raw;

  fp8_e5_t() = default;
  TL_DEVICE explicit fp8_e5_t(float x) {
#if __CUDA_ARCH__ >= 890
    uint16_t pair;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, 0f00000000, %1;" : "=h"(pair) : "f"(x));
    raw = static_cast<uint8_t>(pair);
#else
    raw = tl::small_float(x, 2, 15, 57344.0f, 0x7f);
#endif
  }
  template <typename T>
  TL_DEVICE explicit fp8_e5_t(T x) : fp8_e5_t(tl::to_odd(x)) {}
  TL_DEVICE explicit operator float() const {
    return float(half_t::from_bits(static_cast<uint16_t>(raw << 8)));
  }
  static TL_DEVICE constexpr fp8_e5_t from_bits(uint8_t bits) {
    fp8_e5_t x;
    x.raw = bits;
    return x;
  }
};

#define TL_ARITHMETIC_8(T)                                             \
  TL_DEVICE T operator+(T a, T b) { return T(float(a) + float(b)); }   \
  TL_DEVICE T operator-(T a, T b) { return T(float(a) - float(b)); }   \
  TL_DEVICE T operator*(T a, T b) { return T(float(a) * float(b)); }   \
  TL_DEVICE T operator/(T a, T b) { return T(float(a) / float(b)); }   \
  TL_DEVICE bool operator==(T a, T b) { return float(a) == float(b); } \
  TL_DEVICE bool operator!=(T a, T b) { return float(a) != float(b); } \
  TL_DEVICE bool operator<(T a, T b) { return float(a) < float(b); }   \
  TL_DEVICE bool operator<=(T a, T b) { return float(a) <= float(b); } \
  TL_DEVICE bool operator>(T a, T b) { return float(a) > float(b); }   \
  TL_DEVICE bool operator>=(T a, T b) { return float(a) >= float(b); }
TL_ARITHMETIC_8(fp8_e4_t)
TL_ARITHMETIC_8(fp8_e5_t)
#undef TL_ARITHMETIC_8

namespace tl {

// Which of two values, or of their floats, is the result: a conversion would saturate infinity.
template <typename T>
TL_DEVICE T one_of(T a, T b, float result) {
  return __float_as_uint(result) == __float_as_uint(float(a)) ? a : b;
}
template <typename T>
TL_DEVICE T first_nan(T a, T b, T otherwise) {
  return a != a ? a : b != b ? b : otherwise;
}

}  // namespace tl

#define TL_SELECTION_8(T)                                                           \
  TL_DEVICE T operator-(T a) {                                                      \
    a.raw ^= 0x80;                                                                  \
    return a;                                                                       \
  }                                                                                 \
  TL_DEVICE T abs(T a) {                                                            \
    a.raw &= 0x7f;                                                                  \
    return a;                                                                       \
  }                                                                                 \
  TL_DEVICE T min(T a, T b) { return tl::one_of(a, b, fminf(float(a), float(b))); } \
  TL_DEVICE T max(T a, T b) { return tl::one_of(a, b, fmaxf(float(a), float(b))); } \
  TL_DEVICE T min_nan(T a, T b) { return tl::first_nan(a, b, min(a, b)); }          \
  TL_DEVICE T max_nan(T a, T b) { return tl::first_nan(a, b, max(a, b)); }
TL_SELECTION_8(fp8_e4_t)
TL_SELECTION_8(fp8_e5_t)
#undef TL_SELECTION_8

namespace tl {

template <typename T>
constexpr bool kIsE4m3 = false;
template <>
constexpr bool kIsE4m3<fp8_e4_t> = true;

// Returns two numbers of 8 bits, the first one in the lower byte.
template <typename T>
TL_DEVICE uint16_t narrowed_pair(float first, float second) {
#if __CUDA_ARCH__ >= 890
  uint16_t pair;
  if constexpr (kIsE4m3<T>) {
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(second), "f"(first));
  }
  return pair;
#else
  return static_cast<uint16_t>(T(first).raw | T(second).raw << 8);
#endif
}

// Converts an even count of floats, two by one instruction.
template <typename T, int N>
TL_DEVICE vec<T, N> narrowed(const float (&x)[N]) {
  vec<T, N> v;
#pragma unroll
  for (int i = 0; i < N; i += 2) {
    reinterpret_cast<uint16_t*>(v.chunks)[i / 2] = narrowed_pair<T>(x[i], x[i + 1]);
  }
  return v;
}
// The same, to elements in registers.
template <typename T, int N>
TL_DEVICE void narrow(T* y, const float (&x)[N]) {
#pragma unroll
  for (int i = 0; i < N; i += 2) {
    const uint16_t pair = narrowed_pair<T>(x[i], x[i + 1]);
    y[i].raw = static_cast<uint8_t>(pair);
    y[i + 1].raw = static_cast<uint8_t>(pair >> 8);
  }
}

}  // namespace tl
