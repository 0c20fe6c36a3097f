// Mathematics beyond what NVRTC declares by itself.
#pragma once

namespace tl {

TL_DEVICE float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
TL_DEVICE double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

// One instruction each, approximate, subnormals flushed to zero.
#define TL_APPROXIMATE(name, instruction)           \
  TL_DEVICE float name(float x) {                   \
    float y;                                        \
    asm(instruction " %0, %1;" : "=f"(y) : "f"(x)); \
    return y;                                       \
  }
TL_APPROXIMATE(fast_exp2, "ex2.approx.ftz.f32")
TL_APPROXIMATE(fast_tanh, "tanh.approx.f32")
TL_APPROXIMATE(fast_sqrt, "sqrt.approx.ftz.f32")
TL_APPROXIMATE(fast_rsqrt, "rsqrt.approx.ftz.f32")
TL_APPROXIMATE(fast_rcp, "rcp.approx.ftz.f32")
#undef TL_APPROXIMATE

TL_DEVICE int popcount(int32_t x) { return __popc(x); }
TL_DEVICE int popcount(uint32_t x) { return __popc(x); }
TL_DEVICE int popcount(int64_t x) { return __popcll(x); }
TL_DEVICE int popcount(uint64_t x) { return __popcll(x); }
TL_DEVICE int clz(int32_t x) { return __clz(x); }
TL_DEVICE int clz(uint32_t x) { return __clz(x); }
TL_DEVICE int clz(int64_t x) { return __clzll(x); }
TL_DEVICE int clz(uint64_t x) { return __clzll(x); }
TL_DEVICE int ffs(int32_t x) { return __ffs(x); }
TL_DEVICE int ffs(uint32_t x) { return __ffs(x); }
TL_DEVICE int ffs(int64_t x) { return __ffsll(x); }
TL_DEVICE int ffs(uint64_t x) { return __ffsll(x); }

}  // namespace tl

// Minimum and maximum that are NaN when an operand is.
TL_DEVICE float min_nan(float a, float b) {
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
TL_DEVICE float max_nan(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
TL_DEVICE double min_nan(double a, double b) { return a != a ? a : b != b ? b : min(a, b); }
TL_DEVICE double max_nan(double a, double b) { return a != a ? a : b != b ? b : max(a, b); }

namespace tl {

// 2 to the power x without the unit of special functions: with n the integer next to x, 2^(x - n)
// is a polynomial, of the smallest largest relative error on [-1/2, 1/2] with p(0) = 1. The sum
// with 1.5 * 2^23 + 127 rounds to n, and has the exponent of 2^n in its lowest bits. From 127.5 on
// the result is infinity, below -126.5 zero.
template <int kDegree>
TL_DEVICE float exp2_fma(float x) {
  constexpr float kRound = 12583039.0f;
  constexpr float kCoefficients[][5] = {
      {0.6932829022407532f, 0.24221095442771912f, 0.05500893294811249f},
      {0.6931241750717163f, 0.24024099111557007f, 0.055906426161527634f, 0.009582852944731712f},
      {0.6931470036506653f, 0.24022242426872253f, 0.05550733581185341f, 0.009671512991189957f,
       0.001326472731307149f}};
  x = min_nan(max_nan(x, -127.0f), 128.0f);
  const float rounded = __fadd_rn(x, kRound);
  const float rest = x - __fsub_rn(rounded, kRound);
  float p = kCoefficients[kDegree - 3][kDegree - 1];
#pragma unroll
  for (int i = kDegree - 2; i >= 0; --i) p = fmaf(p, rest, kCoefficients[kDegree - 3][i]);
  return fmaf(p, rest, 1.0f) * __uint_as_float(__float_as_uint(rounded) << 23);
}

}  // namespace tl
