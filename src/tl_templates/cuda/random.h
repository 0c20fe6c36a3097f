// Random numbers of one thread: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", 2011), with the sequences and offsets of cuRAND's curandStatePhilox4_32_10_t.
#pragma once

namespace tl {

// state: counter [0, 4), the numbers of this counter [4, 8), key [8, 10), how many are used [10].
constexpr int kRandomCounter = 0;
constexpr int kRandomOutput = 4;
constexpr int kRandomKey = 8;
constexpr int kRandomUsed = 10;

TL_DEVICE void random_round(uint32_t* x, uint32_t key0, uint32_t key1) {
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
TL_DEVICE void random_block(uint32_t* state) {
  uint32_t* output = state + kRandomOutput;
  for (int i = 0; i < 4; ++i) output[i] = state[kRandomCounter + i];
  uint32_t key0 = state[kRandomKey];
  uint32_t key1 = state[kRandomKey + 1];
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    random_round(output, key0, key1);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
}

// Adds to the counter from a digit of 32 bits on, with carry.
TL_DEVICE void random_skip(uint32_t* state, int digit, uint64_t count) {
  uint64_t carry = 0;
  for (int i = digit; i < 4; ++i) {
    uint64_t part = i - digit < 2 ? (count >> (32 * (i - digit))) & 0xffffffffu : 0;
    uint64_t sum = state[kRandomCounter + i] + part + carry;
    state[kRandomCounter + i] = static_cast<uint32_t>(sum);
    carry = sum >> 32;
  }
}

TL_DEVICE void random_init(uint32_t* state, uint64_t seed, uint64_t sequence, uint64_t offset) {
  for (int i = 0; i < 4; ++i) state[kRandomCounter + i] = 0;
  state[kRandomKey] = static_cast<uint32_t>(seed);
  state[kRandomKey + 1] = static_cast<uint32_t>(seed >> 32);
  random_skip(state, 2, sequence);
  random_skip(state, 0, offset / 4);
  state[kRandomUsed] = static_cast<uint32_t>(offset % 4);
  random_block(state);
}

TL_DEVICE uint32_t random_next(uint32_t* state) {
  uint32_t number = state[kRandomOutput + state[kRandomUsed]++];
  if (state[kRandomUsed] == 4) {
    random_skip(state, 0, 1);
    random_block(state);
    state[kRandomUsed] = 0;
  }
  return number;
}

// Returns a number in (0, 1]: 2^-32 of the number, and half of that more.
TL_DEVICE float random_uniform(uint32_t* state) {
  return fmaf(static_cast<float>(random_next(state)), 2.3283064e-10f, 2.3283064e-10f / 2.0f);
}

}  // namespace tl
