// D = A * B + D by mma.sp (sm_80 and later): A has two of each four elements along K (of 32 bits:
// one of two), of which metadata say where they lie.
#pragma once

#include "mma_sm80.h"

namespace tl {

// Four registers of A, four of B, and one of metadata; kSelector: in which lanes of each quad.
#define TL_MMA_SP_REGISTERS(type)                      \
  auto* d = static_cast<type*>(accumulators);          \
  auto* a = static_cast<const uint32_t*>(a_registers); \
  auto* b = static_cast<const uint32_t*>(b_registers); \
  uint32_t e = *static_cast<const uint32_t*>(metadata);
#define TL_MMA_SP_INPUTS(prepare)                                                             \
  "r"(prepare(a[0])), "r"(prepare(a[1])), "r"(prepare(a[2])), "r"(prepare(a[3])),             \
      "r"(prepare(b[0])), "r"(prepare(b[1])), "r"(prepare(b[2])), "r"(prepare(b[3])), "r"(e), \
      "n"(kSelector)
#define TL_MMA(name, type, constraint, dense, shape, types, prepare)                           \
  template <int kSelector>                                                                     \
  TL_DEVICE void mma_sp_##name(void* accumulators, const void* a_registers,                    \
                               const void* b_registers, const void* metadata) {                \
    TL_MMA_SP_REGISTERS(type)                                                                  \
    asm volatile("mma.sp::ordered_metadata.sync.aligned." shape ".row.col." types              \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, " \
                 "%12, %13;"                                                                   \
                 : constraint(d[0]), constraint(d[1]), constraint(d[2]), constraint(d[3])      \
                 : TL_MMA_SP_INPUTS(prepare));                                                 \
  }

#include "mma_types_sm80.h"
#undef TL_MMA

template <int kSelector>
TL_DEVICE void mma_sp_f16_f16(void* accumulators, const void* a_registers, const void* b_registers,
                              const void* metadata) {
  TL_MMA_SP_REGISTERS(uint32_t)
  asm volatile(
      "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f16.f16.f16.f16 {%0, %1}, "
      "{%2, %3, %4, %5}, {%6, %7, %8, %9}, {%0, %1}, %10, %11;"
      : "+r"(d[0]), "+r"(d[1])
      : TL_MMA_SP_INPUTS(as_it_is));
}

#undef TL_MMA_SP_INPUTS
#undef TL_MMA_SP_REGISTERS

}  // namespace tl
