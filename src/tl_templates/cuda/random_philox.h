// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), with the
// sequences and offsets of cuRAND's curandStatePhilox4_32_10_t.
#pragma once

namespace tl {

struct Philox {
  // state: counter [0, 4), the numbers of this counter [4, 8), key [8, 10), how many are used [10].
  static constexpr int kWords = 11;
  static constexpr int kOutput = 4;
  static constexpr int kKey = 8;
  static constexpr int kUsed = 10;

  static TL_DEVICE void round(uint32_t* x, uint32_t key0, uint32_t key1) {
    uint64_t a = uint64_t{0xD2511F53u} * x[0];
    uint64_t b = uint64_t{0xCD9E8D57u} * x[2];
    uint32_t x1 = x[1];
    uint32_t x3 = x[3];
    x[0] = static_cast<uint32_t>(b >> 32) ^ x1 ^ key0;
    x[1] = static_cast<uint32_t>(b);
    x[2] = static_cast<uint32_t>(a >> 32) ^ x3 ^ key1;
    x[3] = static_cast<uint32_t>(a);
  }

  // Computes the four numbers of the state's counter.
  static TL_DEVICE void fill(uint32_t* state) {
    uint32_t* output = state + kOutput;
    for (int i = 0; i < 4; ++i) output[i] = state[i];
    uint32_t key0 = state[kKey];
    uint32_t key1 = state[kKey + 1];
#pragma unroll
    for (int i = 0; i < 10; ++i) {
      round(output, key0, key1);
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
  }

  // Adds to the counter from a digit of 32 bits on, with carry.
  static TL_DEVICE void skip(uint32_t* state, int digit, uint64_t count) {
    uint64_t carry = 0;
    for (int i = digit; i < 4; ++i) {
      uint64_t part = i - digit < 2 ? (count >> (32 * (i - digit))) & 0xffffffffu : 0;
      uint64_t sum = state[i] + part + carry;
      state[i] = static_cast<uint32_t>(sum);
      carry = sum >> 32;
    }
  }

  static TL_DEVICE void init(uint32_t* state, uint64_t seed, uint64_t sequence, uint64_t offset) {
    for (int i = 0; i < 4; ++i) state[i] = 0;
    state[kKey] = static_cast<uint32_t>(seed);
    state[kKey + 1] = static_cast<uint32_t>(seed >> 32);
    skip(state, 2, sequence);
    skip(state, 0, offset / 4);
    state[kUsed] = static_cast<uint32_t>(offset % 4);
    fill(state);
  }

  static TL_DEVICE uint32_t next(uint32_t* state) {
    uint32_t number = state[kOutput + state[kUsed]++];
    if (state[kUsed] == 4) {
      skip(state, 0, 1);
      fill(state);
      state[kUsed] = 0;
    }
    return number;
  }
};

}  // namespace tl
