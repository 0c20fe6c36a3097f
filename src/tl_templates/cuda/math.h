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

// Return the minimum and the maximum, which are NaN when an operand is.
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

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
// Pairs of floats, and instructions for both.
TL_DEVICE uint64_t pair_of(float low, float high) {
  uint64_t both;
  asm("mov.b64 %0, {%1, %2};" : "=l"(both) : "f"(low), "f"(high));
  return both;
}
TL_DEVICE void split_pair(uint64_t both, float* low, float* high) {
  asm("mov.b64 {%0, %1}, %2;" : "=f"(*low), "=f"(*high) : "l"(both));
}
TL_DEVICE uint64_t add_pairs(uint64_t a, uint64_t b) {
  asm("add.rn.f32x2 %0, %0, %1;" : "+l"(a) : "l"(b));
  return a;
}
TL_DEVICE uint64_t multiply_pairs(uint64_t a, uint64_t b) {
  asm("mul.rn.f32x2 %0, %0, %1;" : "+l"(a) : "l"(b));
  return a;
}
TL_DEVICE uint64_t fma_pairs(uint64_t a, uint64_t b, float c) {
  asm("fma.rn.f32x2 %0, %0, %1, %2;" : "+l"(a) : "l"(b), "l"(pair_of(c, c)));
  return a;
}
TL_DEVICE uint64_t fma_pairs(uint64_t a, uint64_t b, uint64_t c) {
  asm("fma.rn.f32x2 %0, %0, %1, %2;" : "+l"(a) : "l"(b), "l"(c));
  return a;
}
#endif

// Divides numbers by the same r. With y = 1 / r rounded to nearest and q = x * y, the quotient is
// q - (q * r - x) * y rounded once: two fma of which the first one is exact (Brisebarre, Muller and
// Raina, IEEE Trans. Computers 53(8), 2004). This holds unless an intermediate number overflows or
// is subnormal. The signs in the formula keep that of zeros for r > 0. Two tests of all numbers
// choose it: their bits, without the sign and less 1, are at least those of the smallest x, where
// zeros are large; and a weighted sum is finite, because it is not if |x| > 2^126 * min(r, 1).
// Otherwise each number is divided by an instruction.
TL_DEVICE uint32_t doubled_bits(float x) {
  uint32_t bits;  // on the FMA pipe
  asm("mad.lo.u32 %0, %1, 2, 0xffffffff;" : "=r"(bits) : "r"(__float_as_uint(x)));
  return bits;
}
template <int kCount>
TL_DEVICE void divide_by(float* x, float r) {
#if !__USE_FAST_MATH__
  constexpr int kChains = kCount < 16 ? 2 : 4;
  const float inverse = __frcp_rn(r), weight = max(inverse, 1.0f) * 4;
  uint32_t smallest[kChains];
  float sums[kChains] = {};
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const uint32_t bits = doubled_bits(x[i]);
    smallest[i % kChains] = i < kChains ? bits : min(smallest[i % kChains], bits);
    sums[i % kChains] = __fmaf_rn(x[i], weight, sums[i % kChains]);
  }
#pragma unroll
  for (int i = 1; i < kChains; ++i) {
    smallest[0] = min(smallest[0], smallest[i]);
    sums[0] = __fadd_rn(sums[0], sums[i]);
  }
  if (r >= 0x1p-100f && r <= 0x1p100f && abs(sums[0]) < INFINITY &&
      smallest[0] >= doubled_bits(max(r * 0x1p-124f, 0x1p-101f))) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float q = __fmul_rn(x[i], inverse);
      x[i] = __fmaf_rn(__fmaf_rn(q, r, -x[i]), -inverse, q);
    }
    return;
  }
#endif
#pragma unroll
  for (int i = 0; i < kCount; ++i) x[i] = x[i] / r;
}

// Adds four numbers to four sums: two at once where the GPU has packed operations.
TL_DEVICE void add_four(float* sums, const float* x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const uint64_t both = add_pairs(pair_of(sums[i], sums[i + 1]), pair_of(x[i], x[i + 1]));
    split_pair(both, &sums[i], &sums[i + 1]);
  }
#else
#pragma unroll
  for (int i = 0; i < 4; ++i) sums[i] += x[i];
#endif
}

// The sum of numbers times a weight: infinite or no number if one of the products is.
template <int kCount>
TL_DEVICE float weighted_sum(const float* x, float weight) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
  uint64_t sums[2] = {};
#pragma unroll
  for (int i = 0; i < kCount; i += 2) {
    sums[i / 2 % 2] = fma_pairs(pair_of(x[i], x[i + 1]), pair_of(weight, weight), sums[i / 2 % 2]);
  }
  float low, high;
  split_pair(add_pairs(sums[0], sums[1]), &low, &high);
  return low + high;
#else
  float sums[2] = {};
#pragma unroll
  for (int i = 0; i < kCount; ++i) sums[i % 2] = __fmaf_rn(x[i], weight, sums[i % 2]);
  return sums[0] + sums[1];
#endif
}

// Divides numbers by the same r where quotients below 2^-40 become zero. The formula is that of
// divide_by. Its remainder is inexact for |x| < 2^-101 alone, whose quotients by r >= 2^-60 are
// that small. All signs are turned, so that those of zeros are kept.
template <int kCount>
TL_DEVICE void divide_narrowly(float* x, float r) {
#if !__USE_FAST_MATH__
  const float inverse = __frcp_rn(r), weight = max(inverse, 1.0f) * 4;
  if (r >= 0x1p-60f && r <= 0x1p60f && abs(weighted_sum<kCount>(x, weight)) < INFINITY) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
    const uint64_t turned = pair_of(-inverse, -inverse), divisor = pair_of(r, r);
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
      const uint64_t dividend = pair_of(x[i], x[i + 1]);
      const uint64_t q = multiply_pairs(dividend, turned);
      float low, high;
      split_pair(fma_pairs(fma_pairs(q, divisor, dividend), turned, q), &low, &high);
      x[i] = -low;
      x[i + 1] = -high;
    }
#else
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float q = __fmul_rn(x[i], inverse);
      x[i] = __fmaf_rn(__fmaf_rn(q, r, -x[i]), -inverse, q);
    }
#endif
    return;
  }
#endif
#pragma unroll
  for (int i = 0; i < kCount; ++i) x[i] = x[i] / r;
}

// Divides with a relative error of at most 2^-22, for all operands.
TL_DEVICE float quotient(float a, float b) {
  float y;
  asm("div.full.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
// Divides numbers by the same r with that error. The reciprocal of a number in this range is
// neither infinite nor subnormal.
template <int kCount>
TL_DEVICE void divide_by_reciprocal(float* x, float r) {
  const bool in_range = abs(r) >= 0x1p-126f && abs(r) <= 0x1p126f;
  if (in_range) {
    const float inverse = fast_rcp(r);
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] *= inverse;
    return;
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) x[i] = quotient(x[i], r);
}

// 2 to the power x without the unit of special functions: with n the integer next to x, 2^(x - n)
// is a polynomial, of the smallest largest relative error on [-1/2, 1/2] with p(0) = 1. The sum
// with 1.5 * 2^23 + 127 rounds to n, and has the exponent of 2^n in its lowest bits. From 127.5 on
// the result is infinity, below -126.5 zero.
constexpr float kRoundToPower = 12583039.0f;
template <int kDegree>
TL_DEVICE float exp2_coefficient(int i) {
  constexpr float kCoefficients[][6] = {
      {1.0f, 0.6932829022407532f, 0.24221095442771912f, 0.05500893294811249f},
      {1.0f, 0.6931241750717163f, 0.24024099111557007f, 0.055906426161527634f,
       0.009582852944731712f},
      {1.0f, 0.6931470036506653f, 0.24022242426872253f, 0.05550733581185341f, 0.009671512991189957f,
       0.001326472731307149f}};
  return kCoefficients[kDegree - 3][i];
}
TL_DEVICE float exp2_range(float x) { return min_nan(max_nan(x, -127.0f), 128.0f); }
TL_DEVICE float exp2_scale(float rounded) {
  return __uint_as_float(__float_as_uint(rounded) << 23);
}
template <int kDegree>
TL_DEVICE float exp2_fma(float x) {
  x = exp2_range(x);
  const float rounded = __fadd_rn(x, kRoundToPower);
  const float rest = x - __fsub_rn(rounded, kRoundToPower);
  float p = exp2_coefficient<kDegree>(kDegree);
#pragma unroll
  for (int i = kDegree - 1; i >= 0; --i) p = fmaf(p, rest, exp2_coefficient<kDegree>(i));
  return p * exp2_scale(rounded);
}

// tanh without branches, x * P(x^2) / Q(x^2), of the smallest largest relative error (2^-25.4) up
// to 9.01, from where on tanh is 1. P(0) = Q(0) = 1, so numbers next to zero keep their value. The
// largest error of all operands is 7.3 units in the last place (relative 4.4e-7), and no result is
// beyond 1. Fast math uses tanh.approx.f32 (relative error 2^-11), as for tanhf.
constexpr float kTanhEnd = 81.1945f;  // x^2
TL_DEVICE float tanh_coefficient(bool numerator, int i) {
  constexpr float kNumerator[] = {1.0f, 0.13383276760578156f, 0.003498159581795335f,
                                  2.0647425117203966e-05f, 1.3400490495030226e-08f};
  constexpr float kDenominator[] = {1.0f, 0.4671659767627716f, 0.025887027382850647f,
                                    0.0003289667365606874f, 7.796851946295646e-07f};
  return numerator ? kNumerator[i] : kDenominator[i];
}
TL_DEVICE float tanh_polynomial(bool numerator, float square) {
  float p = tanh_coefficient(numerator, 4);
#pragma unroll
  for (int i = 3; i >= 0; --i) p = fmaf(p, square, tanh_coefficient(numerator, i));
  return p;
}
TL_DEVICE float tanh_range(float y) { return min_nan(max_nan(y, -1.0f), 1.0f); }
TL_DEVICE float tanh_fma(float x) {
#if __USE_FAST_MATH__
  return fast_tanh(x);
#endif
  const float square = min(x * x, kTanhEnd);
  return tanh_range(x * tanh_polynomial(true, square) * fast_rcp(tanh_polynomial(false, square)));
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
// Two exponentials.
template <int kDegree>
TL_DEVICE void exp2_fma_pair(float* y, float x0, float x1) {
  const uint64_t x = pair_of(exp2_range(x0), exp2_range(x1));
  const uint64_t rounded = add_pairs(x, pair_of(kRoundToPower, kRoundToPower));
  uint64_t rest = add_pairs(rounded, pair_of(-kRoundToPower, -kRoundToPower));
  asm("sub.rn.f32x2 %0, %1, %0;" : "+l"(rest) : "l"(x));
  uint64_t p = pair_of(exp2_coefficient<kDegree>(kDegree), exp2_coefficient<kDegree>(kDegree));
#pragma unroll
  for (int i = kDegree - 1; i >= 0; --i) p = fma_pairs(p, rest, exp2_coefficient<kDegree>(i));
  float low, high;
  split_pair(rounded, &low, &high);
  split_pair(multiply_pairs(p, pair_of(exp2_scale(low), exp2_scale(high))), &y[0], &y[1]);
}

TL_DEVICE uint64_t tanh_polynomials(bool numerator, uint64_t squares) {
  const float last = tanh_coefficient(numerator, 4);
  uint64_t p = pair_of(last, last);
#pragma unroll
  for (int i = 3; i >= 0; --i) p = fma_pairs(p, squares, tanh_coefficient(numerator, i));
  return p;
}
TL_DEVICE void tanh_fma_pair(float* y, float x0, float x1) {
#if __USE_FAST_MATH__
  y[0] = fast_tanh(x0);
  y[1] = fast_tanh(x1);
  return;
#endif
  const uint64_t x = pair_of(x0, x1);
  float square0, square1, q0, q1;
  split_pair(multiply_pairs(x, x), &square0, &square1);
  const uint64_t squares = pair_of(min(square0, kTanhEnd), min(square1, kTanhEnd));
  split_pair(tanh_polynomials(false, squares), &q0, &q1);
  const uint64_t p = multiply_pairs(x, tanh_polynomials(true, squares));
  split_pair(multiply_pairs(p, pair_of(fast_rcp(q0), fast_rcp(q1))), &y[0], &y[1]);
  y[0] = tanh_range(y[0]);
  y[1] = tanh_range(y[1]);
}
#endif

}  // namespace tl
