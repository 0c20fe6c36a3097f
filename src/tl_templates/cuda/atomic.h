// Atomic operations on one element; they return the old value. Relaxed unless an order is given.
#pragma once

namespace tl {

enum class Order { kRelaxed, kAcquire, kRelease, kAcqRel, kSeqCst };

// Acquires and releases need no fence that is sequentially consistent, as __threadfence() is.
template <Order kOrder>
TL_DEVICE void fence() {
  if constexpr (kOrder == Order::kSeqCst) {
    __threadfence();
  } else {
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
  }
}
template <Order kOrder>
TL_DEVICE void fence_before() {
  if constexpr (kOrder != Order::kRelaxed && kOrder != Order::kAcquire) fence<kOrder>();
}
template <Order kOrder>
TL_DEVICE void fence_after() {
  if constexpr (kOrder != Order::kRelaxed && kOrder != Order::kRelease) fence<kOrder>();
}

// The unsigned integer of T's size that CUDA's atomic functions take.
template <int kBytes>
struct word;
template <>
struct word<1> {
  using type = unsigned char;
};
template <>
struct word<2> {
  using type = unsigned short;
};
template <>
struct word<4> {
  using type = unsigned int;
};
template <>
struct word<8> {
  using type = unsigned long long;
};

TL_DEVICE unsigned short compare_and_swap(unsigned short* address, unsigned short expected,
                                          unsigned short desired) {
  unsigned short old;
  asm volatile("atom.cas.b16 %0, [%1], %2, %3;"
               : "=h"(old)
               : "l"(address), "h"(expected), "h"(desired)
               : "memory");
  return old;
}
TL_DEVICE unsigned int compare_and_swap(unsigned int* address, unsigned int expected,
                                        unsigned int desired) {
  return atomicCAS(address, expected, desired);
}
TL_DEVICE unsigned long long compare_and_swap(unsigned long long* address,
                                              unsigned long long expected,
                                              unsigned long long desired) {
  return atomicCAS(address, expected, desired);
}

// Sets *address = update(*address), for operations that have no instruction of their own.
template <typename T, typename Update>
TL_DEVICE T atomic_update(T* address, Update update) {
  using Word = typename word<sizeof(T)>::type;
  Word* target = reinterpret_cast<Word*>(address);
  Word old = *reinterpret_cast<volatile Word*>(target);
  Word expected;
  do {
    expected = old;
    Word desired = __builtin_bit_cast(Word, update(__builtin_bit_cast(T, expected)));
    old = compare_and_swap(target, expected, desired);
  } while (old != expected);
  return __builtin_bit_cast(T, old);
}

template <typename T>
TL_DEVICE T relaxed_add(T* address, T value) {
  return atomicAdd(address, value);
}
// Addition in two's complement does not depend on the sign.
TL_DEVICE int64_t relaxed_add(int64_t* address, int64_t value) {
  return atomicAdd(reinterpret_cast<uint64_t*>(address), static_cast<uint64_t>(value));
}
TL_DEVICE half_t relaxed_add(half_t* address, half_t value) {
  half_t old;
  asm volatile("atom.add.noftz.f16 %0, [%1], %2;"
               : "=h"(old.raw)
               : "l"(address), "h"(value.raw)
               : "memory");
  return old;
}
TL_DEVICE bfloat16_t relaxed_add(bfloat16_t* address, bfloat16_t value) {
#if __CUDA_ARCH__ >= 900
  bfloat16_t old;
  asm volatile("atom.add.noftz.bf16 %0, [%1], %2;"
               : "=h"(old.raw)
               : "l"(address), "h"(value.raw)
               : "memory");
  return old;
#else
  return atomic_update(address, [=](bfloat16_t old) { return old + value; });
#endif
}

// Numbers of one sign order like integers; NaN changes nothing, like in fmaxf and fminf.
// In assembly: NVRTC 13.0 swaps the branches of the minimum when they call atomicMin and atomicMax.
template <bool kMax>
TL_DEVICE float relaxed_extremum(float* address, float value) {
  if (value != value) return *const_cast<volatile float*>(address);
  unsigned int bits = __float_as_uint(value);
  unsigned int old;
  if (static_cast<int>(bits) >= 0) {
    if constexpr (kMax) {
      asm volatile("atom.max.s32 %0, [%1], %2;" : "=r"(old) : "l"(address), "r"(bits) : "memory");
    } else {
      asm volatile("atom.min.s32 %0, [%1], %2;" : "=r"(old) : "l"(address), "r"(bits) : "memory");
    }
  } else if constexpr (kMax) {
    asm volatile("atom.min.u32 %0, [%1], %2;" : "=r"(old) : "l"(address), "r"(bits) : "memory");
  } else {
    asm volatile("atom.max.u32 %0, [%1], %2;" : "=r"(old) : "l"(address), "r"(bits) : "memory");
  }
  return __uint_as_float(old);
}
template <bool kMax, typename T>
TL_DEVICE T relaxed_extremum(T* address, T value) {
  return atomic_update(address, [=](T old) { return kMax ? max(old, value) : min(old, value); });
}
template <bool kMax>
TL_DEVICE int32_t relaxed_extremum(int32_t* address, int32_t value) {
  return kMax ? atomicMax(address, value) : atomicMin(address, value);
}
template <bool kMax>
TL_DEVICE uint32_t relaxed_extremum(uint32_t* address, uint32_t value) {
  return kMax ? atomicMax(address, value) : atomicMin(address, value);
}
template <bool kMax>
TL_DEVICE int64_t relaxed_extremum(int64_t* address, int64_t value) {
  return kMax ? atomicMax(address, value) : atomicMin(address, value);
}
template <bool kMax>
TL_DEVICE uint64_t relaxed_extremum(uint64_t* address, uint64_t value) {
  return kMax ? atomicMax(address, value) : atomicMin(address, value);
}

#define TL_ATOMIC(name, operation)                      \
  template <Order kOrder = Order::kRelaxed, typename T> \
  TL_DEVICE T name(T* address, T value) {               \
    fence_before<kOrder>();                             \
    T old = operation(address, value);                  \
    fence_after<kOrder>();                              \
    return old;                                         \
  }
#define TL_ATOMIC_BITS(name, operation)                                                      \
  template <Order kOrder = Order::kRelaxed, typename T>                                      \
  TL_DEVICE T name(T* address, T value) {                                                    \
    using Word = typename word<sizeof(T)>::type;                                             \
    fence_before<kOrder>();                                                                  \
    Word old = operation(reinterpret_cast<Word*>(address), __builtin_bit_cast(Word, value)); \
    fence_after<kOrder>();                                                                   \
    return __builtin_bit_cast(T, old);                                                       \
  }
TL_ATOMIC(atomic_add, relaxed_add)
TL_ATOMIC(atomic_max, relaxed_extremum<true>)
TL_ATOMIC(atomic_min, relaxed_extremum<false>)
TL_ATOMIC_BITS(atomic_and, atomicAnd)
TL_ATOMIC_BITS(atomic_or, atomicOr)
TL_ATOMIC_BITS(atomic_xor, atomicXor)
TL_ATOMIC_BITS(atomic_exch, atomicExch)
#undef TL_ATOMIC
#undef TL_ATOMIC_BITS

template <Order kOrder = Order::kRelaxed, typename T>
TL_DEVICE T atomic_cas(T* address, T expected, T desired) {
  using Word = typename word<sizeof(T)>::type;
  fence_before<kOrder>();
  Word old = compare_and_swap(reinterpret_cast<Word*>(address), __builtin_bit_cast(Word, expected),
                              __builtin_bit_cast(Word, desired));
  fence_after<kOrder>();
  return __builtin_bit_cast(T, old);
}

// Replaces the bits of a byte that `mask` has. Compares the two bytes that the byte is one of.
template <Order kOrder = Order::kRelaxed>
TL_DEVICE unsigned char atomic_insert(unsigned char* address, unsigned char bits,
                                      unsigned char mask) {
  const auto place = reinterpret_cast<unsigned long long>(address);
  const int shift = static_cast<int>(place & 1) * 8;
  auto* target = reinterpret_cast<unsigned short*>(place & ~1ull);
  fence_before<kOrder>();
  const unsigned short old = atomic_update(target, [=](unsigned short word) {
    return static_cast<unsigned short>((word & ~(mask << shift)) | bits << shift);
  });
  fence_after<kOrder>();
  return static_cast<unsigned char>(old >> shift);
}

// Each of two or four neighbours; the elements are not updated together.
template <Order kOrder = Order::kRelaxed, typename T>
TL_DEVICE void atomic_addx2(T* address, T x, T y) {
  atomic_add<kOrder>(address, x);
  atomic_add<kOrder>(address + 1, y);
}
template <Order kOrder = Order::kRelaxed, typename T>
TL_DEVICE void atomic_addx4(T* address, T x, T y, T z, T w) {
  atomic_addx2<kOrder>(address, x, y);
  atomic_addx2<kOrder>(address + 2, z, w);
}

TL_DEVICE unsigned char load_acquire(const unsigned char* address) {
  unsigned short value;  // there are no registers of 8 bits
  asm volatile("ld.acquire.gpu.b8 %0, [%1];" : "=h"(value) : "l"(address) : "memory");
  return static_cast<unsigned char>(value);
}
TL_DEVICE unsigned short load_acquire(const unsigned short* address) {
  unsigned short value;
  asm volatile("ld.acquire.gpu.b16 %0, [%1];" : "=h"(value) : "l"(address) : "memory");
  return value;
}
TL_DEVICE unsigned int load_acquire(const unsigned int* address) {
  unsigned int value;
  asm volatile("ld.acquire.gpu.b32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}
TL_DEVICE unsigned long long load_acquire(const unsigned long long* address) {
  unsigned long long value;
  asm volatile("ld.acquire.gpu.b64 %0, [%1];" : "=l"(value) : "l"(address) : "memory");
  return value;
}
TL_DEVICE void store_release(unsigned char* address, unsigned char value) {
  asm volatile("st.release.gpu.b8 [%0], %1;"
               :
               : "l"(address), "h"(static_cast<unsigned short>(value))
               : "memory");
}
TL_DEVICE void store_release(unsigned short* address, unsigned short value) {
  asm volatile("st.release.gpu.b16 [%0], %1;" ::"l"(address), "h"(value) : "memory");
}
TL_DEVICE void store_release(unsigned int* address, unsigned int value) {
  asm volatile("st.release.gpu.b32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}
TL_DEVICE void store_release(unsigned long long* address, unsigned long long value) {
  asm volatile("st.release.gpu.b64 [%0], %1;" ::"l"(address), "l"(value) : "memory");
}

template <Order kOrder = Order::kRelaxed, typename T>
TL_DEVICE T atomic_load(const T* address) {
  using Word = typename word<sizeof(T)>::type;
  const Word* source = reinterpret_cast<const Word*>(address);
  if constexpr (kOrder == Order::kSeqCst) __threadfence();
  if constexpr (kOrder == Order::kRelaxed) {
    return __builtin_bit_cast(T, *const_cast<const volatile Word*>(source));
  } else {
    return __builtin_bit_cast(T, load_acquire(source));
  }
}
template <Order kOrder = Order::kRelaxed, typename T>
TL_DEVICE void atomic_store(T* address, T value) {
  using Word = typename word<sizeof(T)>::type;
  Word* target = reinterpret_cast<Word*>(address);
  Word bits = __builtin_bit_cast(Word, value);
  if constexpr (kOrder == Order::kRelease) {
    store_release(target, bits);
  } else {
    if constexpr (kOrder == Order::kSeqCst) __threadfence();
    *const_cast<volatile Word*>(target) = bits;
    if constexpr (kOrder == Order::kSeqCst) __threadfence();
  }
}

}  // namespace tl
