// Vectors of elements that move between memory and registers in accesses of up to 16 bytes.
#pragma once

namespace tl {

template <int kBytes>
struct chunk;
template <>
struct chunk<1> {
  using type = uint8_t;
};
template <>
struct chunk<2> {
  using type = uint16_t;
};
template <>
struct chunk<4> {
  using type = uint32_t;
};
template <>
struct chunk<8> {
  using type = uint2;
};
template <>
struct chunk<16> {
  using type = uint4;
};

template <typename T>
constexpr bool kIsBfloat16 = false;
template <>
constexpr bool kIsBfloat16<bfloat16_t> = true;

// N elements in registers. Memory is accessed in chunks: the largest power of two that divides
// the size, at most 16 bytes; the address must be a multiple of it.
template <typename T, int N>
struct vec {
  // Enumerators, because static data members would become variables of the module.
  enum : int {
    kBytes = N * sizeof(T),
    kChunk = (kBytes & -kBytes) < 16 ? (kBytes & -kBytes) : 16,
    kChunks = kBytes / kChunk,
  };
  using Chunk = typename chunk<kChunk>::type;

  Chunk chunks[kChunks];

  TL_DEVICE T& operator[](int i) { return reinterpret_cast<T*>(chunks)[i]; }
  // Takes a bfloat16 as half of a word: its conversion to float32 is then one instruction, a shift
  // or a mask of the word.
  TL_DEVICE decltype(auto) operator[](int i) const {
    if constexpr (kIsBfloat16<T> && kChunk >= 4) {
      const uint32_t word = reinterpret_cast<const uint32_t*>(chunks)[i / 2];
      return T::from_bits(static_cast<uint16_t>(word >> (i % 2 * 16)));
    } else {
      return (reinterpret_cast<const T*>(chunks)[i]);
    }
  }
};

template <typename T, int N>
TL_DEVICE vec<T, N> filled(T value) {
  vec<T, N> v;
#pragma unroll
  for (int i = 0; i < N; ++i) v[i] = value;
  return v;
}

template <int N, typename T>
TL_DEVICE vec<T, N> load(const T* source) {
  using V = vec<T, N>;
  V v;
#pragma unroll
  for (int i = 0; i < V::kChunks; ++i) {
    v.chunks[i] = reinterpret_cast<const typename V::Chunk*>(source)[i];
  }
  return v;
}

// Loads without a branch: elements that are taken out of a vector behind one would each be a
// register.
TL_DEVICE void load_chunk_if(bool condition, const void* source, uint32_t& chunk) {
  asm("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %2, 0;\n\t@p ld.global.nc.b32 %0, [%1];\n\t}"
      : "+r"(chunk)
      : "l"(source), "r"(int(condition)));
}
TL_DEVICE void load_chunk_if(bool condition, const void* source, uint2& chunk) {
  asm("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %3, 0;\n\t@p ld.global.nc.v2.b32 {%0, %1}, [%2];\n\t}"
      : "+r"(chunk.x), "+r"(chunk.y)
      : "l"(source), "r"(int(condition)));
}
TL_DEVICE void load_chunk_if(bool condition, const void* source, uint4& chunk) {
  asm("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %5, 0;\n\t"
      "@p ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];\n\t}"
      : "+r"(chunk.x), "+r"(chunk.y), "+r"(chunk.z), "+r"(chunk.w)
      : "l"(source), "r"(int(condition)));
}

// `v` where the condition does not hold; from global memory that nobody writes meanwhile.
template <typename T, int N>
TL_DEVICE vec<T, N> load_if(bool condition, const T* source, vec<T, N> v) {
  using V = vec<T, N>;
#pragma unroll
  for (int i = 0; i < V::kChunks; ++i) {
    const auto* chunk = reinterpret_cast<const typename V::Chunk*>(source) + i;
    load_chunk_if(condition, reinterpret_cast<const void*>(__cvta_generic_to_global(chunk)),
                  v.chunks[i]);
  }
  return v;
}

// The first kWords of twice as many, from the given byte on, which is one of the first half.
template <int kWords, bool kInWords>
TL_DEVICE void shift_words(uint32_t (&words)[2 * kWords], uint32_t first_byte) {
#pragma unroll
  for (int distance = kWords / 2; distance > 0; distance /= 2) {
    bool shifts = first_byte & (4 * distance);
#pragma unroll
    for (int i = 0; i < kWords + distance - (kInWords ? 0 : 1); ++i) {
      words[i] = shifts ? words[i + distance] : words[i];
    }
  }
  if constexpr (kInWords) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      words[i] = __funnelshift_r(words[i], words[i + 1], first_byte % 4 * 8);
    }
  }
}

// Loads the aligned vectors in global memory in which one lies that begins at any element, one
// twice where it is aligned.
template <typename V, typename T>
struct surrounding {
  const typename V::Chunk* low;
  const typename V::Chunk* high;
  uint32_t first_byte;  // in the lower one

  TL_DEVICE explicit surrounding(const T* source) {
    // A number of which NVVM knows nothing. NVVM 13.0 otherwise moves parts of addresses that
    // branches share behind their first use.
    uint64_t address = __cvta_generic_to_global(source);
    asm("mov.b64 %0, %0;" : "+l"(address));
    first_byte = address % V::kBytes;
    const char* start =
        reinterpret_cast<const char*>(__cvta_global_to_generic(address - first_byte));
    low = reinterpret_cast<const typename V::Chunk*>(start);
    high = low + (first_byte != 0);
  }
  TL_DEVICE V part(const V& lower, const V& higher) const {
    constexpr int kWords = V::kBytes / 4;
    uint32_t words[2 * kWords];
    memcpy(words, &lower, V::kBytes);
    memcpy(words + kWords, &higher, V::kBytes);
    shift_words<kWords, (sizeof(T) < 4)>(words, first_byte);
    V v;
    memcpy(&v, words, V::kBytes);
    return v;
  }
};

// Loads from any element on; also loads the rest of the aligned vectors in which it lies.
template <int N, typename T>
TL_DEVICE vec<T, N> load_unaligned(const T* source) {
  using V = vec<T, N>;
  V v;
  if constexpr (V::kBytes == 8 || V::kBytes == 16) {
    surrounding<V, T> around(source);
    V higher;
    v.chunks[0] = *around.low;
    higher.chunks[0] = *around.high;
    return around.part(v, higher);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = source[i];
    return v;
  }
}

// The same where the condition holds, as load_if.
template <typename T, int N>
TL_DEVICE vec<T, N> load_unaligned_if(bool condition, const T* source, vec<T, N> v) {
  using V = vec<T, N>;
  if constexpr (V::kBytes == 8 || V::kBytes == 16) {
    surrounding<V, T> around(source);
    V lower = v, higher = v;
    lower = load_if(condition, reinterpret_cast<const T*>(around.low), lower);
    higher = load_if(condition, reinterpret_cast<const T*>(around.high), higher);
    V part = around.part(lower, higher);
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = condition ? part[i] : v[i];
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = condition ? source[i] : v[i];
  }
  return v;
}

template <typename T, int N>
TL_DEVICE void store(T* target, const vec<T, N>& v) {
  using V = vec<T, N>;
#pragma unroll
  for (int i = 0; i < V::kChunks; ++i) {
    reinterpret_cast<typename V::Chunk*>(target)[i] = v.chunks[i];
  }
}

// Stores to any element on. Lanes that store next to each other shift their elements by as many as
// are beyond an aligned vector, which each lane then stores together with what the lane before it
// leaves over; what has no neighbour is stored element by element.
template <typename T, int N>
TL_DEVICE void store_unaligned(T* target, const vec<T, N>& v) {
  using V = vec<T, N>;
  if constexpr (V::kBytes == 8 || V::kBytes == 16) {
    constexpr int kWords = V::kBytes / 4;
    uint64_t address = reinterpret_cast<uint64_t>(target);
    uint32_t ahead = address % V::kBytes;
    uint32_t mask = __activemask();
    uint32_t lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    uint64_t before = __shfl_up_sync(mask, address, 1);
    bool follows = lane > 0 && (mask >> (lane - 1) & 1) && before + V::kBytes == address;
    bool followed = __ballot_sync(mask, follows) >> 1 >> lane & 1;
    uint32_t words[2 * kWords];
    memcpy(words + kWords, &v, V::kBytes);
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      uint32_t left = __shfl_up_sync(mask, words[kWords + i], 1);
      words[i] = ahead == 0 ? words[kWords + i] : left;
    }
    shift_words<kWords, (sizeof(T) < 4)>(words, (V::kBytes - ahead) % V::kBytes);
    if (follows || ahead == 0) {
      V whole;
      memcpy(&whole, words, V::kBytes);
      char* start = reinterpret_cast<char*>(target) - ahead;
      *reinterpret_cast<typename V::Chunk*>(start) = whole.chunks[0];
    }
    if (ahead != 0 && !(follows && followed)) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        bool first = i * sizeof(T) < V::kBytes - ahead;
        if (first ? !follows : !followed) target[i] = v[i];
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) target[i] = v[i];
  }
}

}  // namespace tl
