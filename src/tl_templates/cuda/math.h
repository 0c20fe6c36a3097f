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
