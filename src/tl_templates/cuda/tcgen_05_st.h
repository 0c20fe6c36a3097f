// tcgen05.st: the registers of a warp to tensor memory (sm_100a).
//
// tcgen05_st_<lanes>dp<bits>bNx<N, kUnpack>(address, registers) stores N repeats of the shape from
// consecutive 32-bit registers. The address carries the lane in its upper half. The stores are
// done after tcgen05_wait_st(), which belongs before the first consumer, not after every store.
//
// kUnpack spreads the halves of a register over two columns: that is the format of 16-bit
// accumulators, not of a 16-bit A operand, which the tensor core reads packed.
#pragma once

#include "tcgen_05_operands.h"

namespace tl {

#define TL_ST_INSTRUCTION(shape, repeat, registers, unpack)                              \
  asm volatile("tcgen05.st.sync.aligned." shape ".x" #repeat unpack ".b32 [%" #registers \
               "], {" TL_REGISTERS_##registers "};"                                      \
               :                                                                         \
               : TL_INPUTS_##registers(r, 0), "r"(address)                               \
               : "memory")

#define TL_ST_CASE(shape, repeat, registers)                       \
  if constexpr (N == repeat) {                                     \
    if constexpr (kUnpack) {                                       \
      TL_ST_INSTRUCTION(shape, repeat, registers, ".unpack::16b"); \
    } else {                                                       \
      TL_ST_INSTRUCTION(shape, repeat, registers, "");             \
    }                                                              \
  }

#define TL_ST_FUNCTION(name, CASES, CASE, max_repeat)                                 \
  template <int N, bool kUnpack, typename T>                                          \
  TL_DEVICE void name(uint32_t address, const T* source) {                            \
    static_assert(N >= 1 && N <= max_repeat && (N & (N - 1)) == 0, "illegal repeat"); \
    const uint32_t* r = reinterpret_cast<const uint32_t*>(source);                    \
    CASES(CASE)                                                                       \
  }

#define TL_ST_32X32B(repeat, registers) TL_ST_CASE("32x32b", repeat, registers)
#define TL_ST_16X64B(repeat, registers) TL_ST_CASE("16x64b", repeat, registers)
#define TL_ST_16X128B(repeat, registers) TL_ST_CASE("16x128b", repeat, registers)
#define TL_ST_16X256B(repeat, registers) TL_ST_CASE("16x256b", repeat, registers)
TL_ST_FUNCTION(tcgen05_st_32dp32bNx, TL_REPEATS_1, TL_ST_32X32B, 128)
TL_ST_FUNCTION(tcgen05_st_16dp64bNx, TL_REPEATS_1, TL_ST_16X64B, 128)
TL_ST_FUNCTION(tcgen05_st_16dp128bNx, TL_REPEATS_2, TL_ST_16X128B, 64)
TL_ST_FUNCTION(tcgen05_st_16dp256bNx, TL_REPEATS_4, TL_ST_16X256B, 32)

#define TL_ST_16X32BX2_INSTRUCTION(repeat, registers, unpack)                           \
  asm volatile("tcgen05.st.sync.aligned.16x32bx2.x" #repeat unpack ".b32 [%" #registers \
               "], %" TL_NEXT_##registers ", {" TL_REGISTERS_##registers "};"           \
               :                                                                        \
               : TL_INPUTS_##registers(r, 0), "r"(address), "n"(kHalfOffset)            \
               : "memory")
#define TL_ST_16X32BX2(repeat, registers)                            \
  if constexpr (N == repeat) {                                       \
    if constexpr (kUnpack) {                                         \
      TL_ST_16X32BX2_INSTRUCTION(repeat, registers, ".unpack::16b"); \
    } else {                                                         \
      TL_ST_16X32BX2_INSTRUCTION(repeat, registers, "");             \
    }                                                                \
  }

// Threads 16..31 store kHalfOffset columns further on, in the same 16 lanes.
template <int N, bool kUnpack, int kHalfOffset, typename T>
TL_DEVICE void tcgen05_st_16dp32bx2Nx(uint32_t address, const T* source) {
  static_assert(N >= 1 && N <= 128 && (N & (N - 1)) == 0, "illegal repeat");
  const uint32_t* r = reinterpret_cast<const uint32_t*>(source);
  TL_REPEATS_1(TL_ST_16X32BX2)
}

// Waits for this warp's stores.
TL_DEVICE void tcgen05_wait_st() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }

}  // namespace tl
