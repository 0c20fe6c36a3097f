// Matrix instructions of one warp (sm_80 and later): ldmatrix, and D = A * B + D by mma.sync.
#pragma once

namespace tl {

// Matrices of 8 rows of 16 bytes to a register of each thread; lanes 8i to 8i + 7 give the rows of
// matrix i. Transposed: of 16-bit elements.
template <int kCount, bool kTransposed>
TL_DEVICE void ldmatrix(void* registers, const void* row) {
  auto* r = static_cast<uint32_t*>(registers);
  uint32_t address = shared_address(row);
#define TL_LDMATRIX(trans)                                                                   \
  if constexpr (kCount == 4) {                                                               \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" trans ".shared.b16 {%0, %1, %2, %3}, [%4];" \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                            \
                 : "r"(address)                                                              \
                 : "memory");                                                                \
  } else if constexpr (kCount == 2) {                                                        \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2" trans ".shared.b16 {%0, %1}, [%2];"         \
                 : "=r"(r[0]), "=r"(r[1])                                                    \
                 : "r"(address)                                                              \
                 : "memory");                                                                \
  } else {                                                                                   \
    asm volatile("ldmatrix.sync.aligned.m8n8.x1" trans ".shared.b16 {%0}, [%1];"             \
                 : "=r"(r[0])                                                                \
                 : "r"(address)                                                              \
                 : "memory");                                                                \
  }
  if constexpr (kTransposed) {
    TL_LDMATRIX(".trans")
  } else {
    TL_LDMATRIX("")
  }
#undef TL_LDMATRIX
}

TL_DEVICE uint32_t as_it_is(uint32_t bits) { return bits; }

// The instruction reads the upper 19 bits; nearest, ties away, instead of dropping the others.
TL_DEVICE uint32_t to_tf32(uint32_t bits) {
  uint32_t rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(bits)));
  return rounded;
}

// Four registers of A, two of B.
#define TL_MMA(name, type, constraint, shape, sparse, types, prepare)                              \
  TL_DEVICE void mma_##name(void* accumulators, const void* a_registers,                           \
                            const void* b_registers) {                                             \
    auto* d = static_cast<type*>(accumulators);                                                    \
    auto* a = static_cast<const uint32_t*>(a_registers);                                           \
    auto* b = static_cast<const uint32_t*>(b_registers);                                           \
    asm volatile("mma.sync.aligned." shape ".row.col." types                                       \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                \
                 : constraint(d[0]), constraint(d[1]), constraint(d[2]), constraint(d[3])          \
                 : "r"(prepare(a[0])), "r"(prepare(a[1])), "r"(prepare(a[2])), "r"(prepare(a[3])), \
                   "r"(prepare(b[0])), "r"(prepare(b[1])));                                        \
  }
#include "mma_types_sm80.h"
#undef TL_MMA

TL_DEVICE void mma_f16_f16(void* accumulators, const void* a_registers, const void* b_registers) {
  auto* d = static_cast<uint32_t*>(accumulators);
  auto* a = static_cast<const uint32_t*>(a_registers);
  auto* b = static_cast<const uint32_t*>(b_registers);
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, "
      "{%0, %1};"
      : "+r"(d[0]), "+r"(d[1])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

TL_DEVICE void mma_f64_f64(void* accumulators, const void* a_registers, const void* b_registers) {
  auto* d = static_cast<double*>(accumulators);
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+d"(d[0]), "+d"(d[1])
               : "d"(*static_cast<const double*>(a_registers)),
                 "d"(*static_cast<const double*>(b_registers)));
}

}  // namespace tl
