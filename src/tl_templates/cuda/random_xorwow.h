// XORWOW (Marsaglia, "Xorshift RNGs", 2003), with the seeds, sequences and offsets of cuRAND's
// curandStateXORWOW_t.
//
// A step of the five words is a linear map T over GF(2). Skipping n steps multiplies by T^n. T is a
// root of its characteristic polynomial p of degree 160, so T^n = q(T), where q is x^n modulo p.
// The polynomial q takes log2(n) squarings, and q(T) of a state takes 160 steps.
#pragma once

namespace tl {

// A polynomial over GF(2) of degree below 160; bit i is the coefficient of x^i.
struct XorwowPolynomial {
  uint32_t words[5];

  TL_DEVICE uint32_t bit(int i) const { return words[i / 32] >> (i % 32) & 1; }

  TL_DEVICE void add(const XorwowPolynomial& other) {
    for (int i = 0; i < 5; ++i) words[i] ^= other.words[i];
  }

  // Multiplies by x modulo p.
  TL_DEVICE void shift() {
    uint32_t over = words[4] >> 31;
    for (int i = 4; i > 0; --i) words[i] = words[i] << 1 | words[i - 1] >> 31;
    words[0] <<= 1;
    if (over) add({{0x00060001u, 0x08610030u, 0x00062121u, 0x0f3c0035u, 0x00000f0eu}});
  }
};

TL_DEVICE XorwowPolynomial xorwow_product(const XorwowPolynomial& a, const XorwowPolynomial& b) {
  XorwowPolynomial product = {{0, 0, 0, 0, 0}};
  for (int i = 159; i >= 0; --i) {
    product.shift();
    if (b.bit(i)) product.add(a);
  }
  return product;
}

struct Xorwow {
  // state: the words of the xorshift [0, 5), and what is added to their last one [5].
  static constexpr int kWords = 6;
  static constexpr uint32_t kStep = 362437;

  static TL_DEVICE void step(uint32_t* state) {
    uint32_t t = state[0] ^ (state[0] >> 2);
    for (int i = 0; i < 4; ++i) state[i] = state[i + 1];
    state[4] = state[4] ^ (state[4] << 4) ^ t ^ (t << 1);
  }

  // Takes the steps of `base` `count` times; base is a power of x modulo p.
  static TL_DEVICE void skip(uint32_t* state, const XorwowPolynomial& base, uint64_t count) {
    if (count == 0) return;
    XorwowPolynomial power = base;
    for (int i = 62 - __clzll(static_cast<long long>(count)); i >= 0; --i) {
      power = xorwow_product(power, power);
      if (count >> i & 1) power = xorwow_product(power, base);
    }
    uint32_t sum[5] = {0, 0, 0, 0, 0};
    for (int i = 159; i >= 0; --i) {
      step(sum);
      if (power.bit(i)) {
        for (int j = 0; j < 5; ++j) sum[j] ^= state[j];
      }
    }
    for (int i = 0; i < 5; ++i) state[i] = sum[i];
  }

  static TL_DEVICE void init(uint32_t* state, uint64_t seed, uint64_t sequence, uint64_t offset) {
    uint32_t low = 1099087573u * (static_cast<uint32_t>(seed) ^ 0xaad26b49u);
    uint32_t high = 2591861531u * (static_cast<uint32_t>(seed >> 32) ^ 0xf7dcefddu);
    state[0] = 123456789u + low;
    state[1] = 362436069u ^ low;
    state[2] = 521288629u + high;
    state[3] = 88675123u ^ high;
    state[4] = 5783321u + low;
    state[5] = 6615241u + high + low + kStep * static_cast<uint32_t>(offset);
    // x^(2^67) modulo p: a sequence has 2^67 numbers, so that the sixth word stays as it is.
    skip(state, {{0x26294934u, 0x77bbc248u, 0x1a87dad0u, 0x930052d4u, 0x947e6dd2u}}, sequence);
    skip(state, {{2, 0, 0, 0, 0}}, offset);
  }

  static TL_DEVICE uint32_t next(uint32_t* state) {
    step(state);
    state[5] += kStep;
    return state[4] + state[5];
  }
};

}  // namespace tl
