// Random numbers of one thread, with the sequences and offsets of cuRAND's generators.
//
// A generator is a struct: how many words its state has, how it starts, and its next 32 bits. The
// state of a thread is these words and those of Spare. A Uniform says how the bits of a generator
// become numbers in (0, 1]. random_normal makes two numbers at a time (Box and Muller, 1958) and
// keeps the second one in Spare.
#pragma once

#include "random_mrg32k3a.h"
#include "random_philox.h"
#include "random_xorwow.h"

namespace tl {

// The words of a state behind those of the generator: whether a second normal number is kept (bit
// 0: of float, bit 1: of double), the float, and both halves of the double.
constexpr int kRandomKept = 0;
constexpr int kRandomFloat = 1;
constexpr int kRandomDouble = 2;

template <typename Generator>
TL_DEVICE void random_init(uint32_t* state, uint64_t seed, uint64_t sequence, uint64_t offset) {
  Generator::init(state, seed, sequence, offset);
  state[Generator::kWords + kRandomKept] = 0;
}

template <typename Generator>
TL_DEVICE uint32_t random_next(uint32_t* state) {
  return Generator::next(state);
}

// 2^-32 of the next number, and half of that more.
template <typename Generator>
struct Uniform {
  static TL_DEVICE float next(uint32_t* state) {
    return fmaf(static_cast<float>(Generator::next(state)), 2.3283064e-10f, 2.3283064e-10f / 2.0f);
  }

  // 53 bits: the first number, and the second one from bit 21 on.
  static TL_DEVICE double next_wide(uint32_t* state) {
    uint64_t bits = Generator::next(state);
    bits ^= static_cast<uint64_t>(Generator::next(state)) << 21;
    return static_cast<double>(bits) * 0x1p-53 + 0x1p-54;
  }

  static TL_DEVICE double next_double(uint32_t* state) { return next_wide(state); }
};

// cuRAND takes one number of Philox for a double, except below normal numbers.
template <>
TL_DEVICE double Uniform<Philox>::next_double(uint32_t* state) {
  return (static_cast<double>(Philox::next(state)) + 1.0) * 0x1p-32;
}

template <>
struct Uniform<Mrg32k3a> {
  static TL_DEVICE float next(uint32_t* state) {
    return static_cast<float>(Mrg32k3a::raw(state) * 2.328306549295727688e-10);
  }

  static TL_DEVICE double next_wide(uint32_t* state) {
    return Mrg32k3a::raw(state) * 2.3283065498378288e-10;
  }

  static TL_DEVICE double next_double(uint32_t* state) { return next_wide(state); }
};

template <typename Generator>
TL_DEVICE float random_uniform(uint32_t* state) {
  return Uniform<Generator>::next(state);
}

template <typename Generator>
TL_DEVICE double random_uniform_double(uint32_t* state) {
  return Uniform<Generator>::next_double(state);
}

template <typename Generator>
TL_DEVICE float random_normal(uint32_t* state) {
  uint32_t* spare = state + Generator::kWords;
  spare[kRandomKept] ^= 1;
  if ((spare[kRandomKept] & 1) == 0) return __uint_as_float(spare[kRandomFloat]);
  float radius = sqrtf(-2.0f * logf(Uniform<Generator>::next(state)));
  float angle = 2.0f * Uniform<Generator>::next(state);
  spare[kRandomFloat] = __float_as_uint(radius * cospif(angle));
  return radius * sinpif(angle);
}

template <typename Generator>
TL_DEVICE double random_normal_double(uint32_t* state) {
  uint32_t* spare = state + Generator::kWords;
  spare[kRandomKept] ^= 2;
  if ((spare[kRandomKept] & 2) == 0) {
    uint64_t high = spare[kRandomDouble + 1];
    return __longlong_as_double(static_cast<long long>(high << 32 | spare[kRandomDouble]));
  }
  double radius = sqrt(-2.0 * log(Uniform<Generator>::next_wide(state)));
  double angle = 2.0 * Uniform<Generator>::next_wide(state);
  auto second = static_cast<uint64_t>(__double_as_longlong(radius * cospi(angle)));
  spare[kRandomDouble] = static_cast<uint32_t>(second);
  spare[kRandomDouble + 1] = static_cast<uint32_t>(second >> 32);
  return radius * sinpi(angle);
}

}  // namespace tl
