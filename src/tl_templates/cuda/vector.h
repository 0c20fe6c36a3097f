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
  TL_DEVICE const T& operator[](int i) const { return reinterpret_cast<const T*>(chunks)[i]; }
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

// Without a branch: elements that are taken out of a vector behind one would each be a register.
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

template <typename T, int N>
TL_DEVICE void store(T* target, const vec<T, N>& v) {
  using V = vec<T, N>;
#pragma unroll
  for (int i = 0; i < V::kChunks; ++i) {
    reinterpret_cast<typename V::Chunk*>(target)[i] = v.chunks[i];
  }
}

}  // namespace tl
