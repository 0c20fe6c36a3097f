// Communication within a warp.
#pragma once

namespace tl {

// 8- and 16-bit values travel in a 32-bit word.
template <typename T>
TL_DEVICE auto to_word(T value) {
  if constexpr (sizeof(T) == 1) {
    return static_cast<uint32_t>(__builtin_bit_cast(uint8_t, value));
  } else if constexpr (sizeof(T) == 2) {
    return static_cast<uint32_t>(__builtin_bit_cast(uint16_t, value));
  } else if constexpr (sizeof(T) == 4) {
    return __builtin_bit_cast(uint32_t, value);
  } else {
    return __builtin_bit_cast(uint64_t, value);
  }
}
template <typename T, typename Word>
TL_DEVICE T from_word(Word word) {
  if constexpr (sizeof(T) == 1) {
    return __builtin_bit_cast(T, static_cast<uint8_t>(word));
  } else if constexpr (sizeof(T) == 2) {
    return __builtin_bit_cast(T, static_cast<uint16_t>(word));
  } else {
    return __builtin_bit_cast(T, word);
  }
}

#define TL_SHUFFLE(name, builtin)                                                    \
  template <typename T>                                                              \
  TL_DEVICE T name(T value, int lane, int width = 32, uint32_t mask = 0xffffffffu) { \
    return from_word<T>(builtin(mask, to_word(value), lane, width));                 \
  }
TL_SHUFFLE(shfl, __shfl_sync)
TL_SHUFFLE(shfl_xor, __shfl_xor_sync)
TL_SHUFFLE(shfl_up, __shfl_up_sync)
TL_SHUFFLE(shfl_down, __shfl_down_sync)
#undef TL_SHUFFLE

TL_DEVICE bool any(bool predicate, uint32_t mask = 0xffffffffu) {
  return __any_sync(mask, predicate);
}
TL_DEVICE bool all(bool predicate, uint32_t mask = 0xffffffffu) {
  return __all_sync(mask, predicate);
}
TL_DEVICE uint32_t ballot(bool predicate, uint32_t mask = 0xffffffffu) {
  return __ballot_sync(mask, predicate);
}

// Returns the index of the thread's warp, in a register that is known to be uniform.
TL_DEVICE int warp_index(int thread) { return __shfl_sync(0xffffffff, thread / 32, 0); }

// Returns a number of which the compiler knows only that it comes from another one.
TL_DEVICE int copy_of(int number) {
  int copy;
  asm("mov.b32 %0, %1;" : "=r"(copy) : "r"(number));
  return copy;
}

// Returns true in one thread of the warp, the same each time.
TL_DEVICE bool elect_one() {
#if __CUDA_ARCH__ >= 900
  uint32_t elected;
  asm volatile(
      "{\n\t.reg .pred p;\n\t"
      "elect.sync _|p, 0xffffffff;\n\t"
      "selp.u32 %0, 1, 0, p;\n\t}"
      : "=r"(elected));
  return elected != 0;
#else
  uint32_t lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane == 0;
#endif
}

// Over the 32 lanes; every lane gets the result.
template <typename T, typename Combine>
TL_DEVICE T warp_reduce(T value, Combine combine) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value = combine(value, shfl_xor(value, distance));
  }
  return value;
}
template <typename T>
TL_DEVICE T warp_reduce_sum(T value) {
  return warp_reduce(value, [](T a, T b) { return a + b; });
}
template <typename T>
TL_DEVICE T warp_reduce_max(T value) {
  return warp_reduce(value, [](T a, T b) { return max(a, b); });
}
template <typename T>
TL_DEVICE T warp_reduce_min(T value) {
  return warp_reduce(value, [](T a, T b) { return min(a, b); });
}
template <typename T>
TL_DEVICE T warp_reduce_and(T value) {
  return warp_reduce(value, [](T a, T b) { return static_cast<T>(a & b); });
}
template <typename T>
TL_DEVICE T warp_reduce_or(T value) {
  return warp_reduce(value, [](T a, T b) { return static_cast<T>(a | b); });
}

// Returns the lanes of the mask whose value has the same bits.
template <typename T>
TL_DEVICE uint32_t match_any(T value, uint32_t mask = 0xffffffffu) {
  return __match_any_sync(mask, to_word(value));
}
// Returns the mask if all of its lanes have the same bits, else 0.
template <typename T>
TL_DEVICE uint32_t match_all(T value, uint32_t mask = 0xffffffffu) {
  int same;
  return __match_all_sync(mask, to_word(value), &same);
}

}  // namespace tl
