// MRG32k3a (L'Ecuyer, "Good parameters and implementations for combined multiple recursive random
// number generators", 1999), with the seeds, sequences and offsets of cuRAND's
// curandStateMRG32k3a_t.
#pragma once

namespace tl {

// A map of three numbers modulo `modulus`, and its powers.
struct Mrg32k3aMatrix {
  uint64_t at[3][3];

  TL_DEVICE void times(const Mrg32k3aMatrix& other, uint64_t modulus) {
    Mrg32k3aMatrix product;
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 3; ++j) {
        uint64_t sum = 0;
        for (int k = 0; k < 3; ++k) sum = (sum + at[i][k] * other.at[k][j] % modulus) % modulus;
        product.at[i][j] = sum;
      }
    }
    *this = product;
  }

  // Applies the map `count` times.
  TL_DEVICE void apply(uint32_t* vector, uint64_t count, uint64_t modulus) const {
    Mrg32k3aMatrix power = *this;
    for (; count != 0; count >>= 1) {
      if (count & 1) {
        uint64_t sums[3] = {0, 0, 0};
        for (int i = 0; i < 3; ++i) {
          for (int j = 0; j < 3; ++j) {
            sums[i] = (sums[i] + power.at[i][j] * vector[j] % modulus) % modulus;
          }
        }
        for (int i = 0; i < 3; ++i) vector[i] = static_cast<uint32_t>(sums[i]);
      }
      power.times(power, modulus);
    }
  }
};

struct Mrg32k3a {
  // state: the three last numbers of both recurrences.
  static constexpr int kWords = 6;
  static constexpr uint64_t kModulus1 = 4294967087u;
  static constexpr uint64_t kModulus2 = 4294944443u;

  static TL_DEVICE void init(uint32_t* state, uint64_t seed, uint64_t sequence, uint64_t offset) {
    uint64_t low = static_cast<uint32_t>(seed) ^ 0x55555555u;
    uint64_t high = static_cast<uint32_t>(seed >> 32) ^ 0xaaaaaaaau;
    if (seed == 0) low = high = 1;
    for (int i = 0; i < 3; ++i) {
      state[i] = static_cast<uint32_t>(12345 * (i == 1 ? high : low) % kModulus1);
      state[3 + i] = static_cast<uint32_t>(12345 * (i == 1 ? low : high) % kModulus2);
    }
    // The recurrences, and their powers of 2^76: a sequence has 2^76 numbers.
    Mrg32k3aMatrix near1 = {{{0, 1, 0}, {0, 0, 1}, {kModulus1 - 810728, 1403580, 0}}};
    Mrg32k3aMatrix near2 = {{{0, 1, 0}, {0, 0, 1}, {kModulus2 - 1370589, 0, 527612}}};
    Mrg32k3aMatrix far1 = {{{82758667, 1871391091, 4127413238},
                            {3672831523, 69195019, 1871391091},
                            {3672091415, 3528743235, 69195019}}};
    Mrg32k3aMatrix far2 = {{{1511326704, 3759209742, 1610795712},
                            {4292754251, 1511326704, 3889917532},
                            {3859662829, 4292754251, 3708466080}}};
    far1.apply(state, sequence, kModulus1);
    far2.apply(state + 3, sequence, kModulus2);
    near1.apply(state, offset, kModulus1);
    near2.apply(state + 3, offset, kModulus2);
  }

  // Returns the next whole number in [1, 4294967087].
  static TL_DEVICE double raw(uint32_t* state) {
    uint64_t a = (1403580 * uint64_t{state[1]} + 810728 * (kModulus1 - state[0])) % kModulus1;
    uint64_t b = (527612 * uint64_t{state[5]} + 1370589 * (kModulus2 - state[3])) % kModulus2;
    for (int i = 0; i < 5; ++i) state[i] = state[i + 1];
    state[2] = static_cast<uint32_t>(a);
    state[5] = static_cast<uint32_t>(b);
    return static_cast<double>(a > b ? a - b : a + kModulus1 - b);
  }

  static TL_DEVICE uint32_t next(uint32_t* state) {
    // Stretched to 32 bits.
    return static_cast<uint32_t>(fmin(raw(state) * 1.000000048662, 4294967295.0));
  }
};

}  // namespace tl
