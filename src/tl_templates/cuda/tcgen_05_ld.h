// tcgen05.ld: tensor memory to the registers of a warp (sm_100a).
//
// tcgen05_ld_<lanes>dp<bits>bNx<N, kPack>(address, registers) loads N repeats of the shape into
// consecutive 32-bit registers. The address carries the lane in its upper half. The values are
// defined after tcgen05_wait_ld(). kPack collects the low halves of two columns in a register.
#pragma once

#include "tcgen_05_operands.h"

namespace tl {

#define TL_LD_INSTRUCTION(shape, repeat, registers, pack)                \
  asm volatile("tcgen05.ld.sync.aligned." shape ".x" #repeat pack        \
               ".b32 {" TL_REGISTERS_##registers "}, [%" #registers "];" \
               : TL_OUTPUTS_##registers(r, 0)                            \
               : "r"(address)                                            \
               : "memory")

#define TL_LD_CASE(shape, repeat, registers)                     \
  if constexpr (N == repeat) {                                   \
    if constexpr (kPack) {                                       \
      TL_LD_INSTRUCTION(shape, repeat, registers, ".pack::16b"); \
    } else {                                                     \
      TL_LD_INSTRUCTION(shape, repeat, registers, "");           \
    }                                                            \
  }

#define TL_LD_FUNCTION(name, CASES, CASE, max_repeat)                                 \
  template <int N, bool kPack, typename T>                                            \
  TL_DEVICE void name(uint32_t address, T* destination) {                             \
    static_assert(N >= 1 && N <= max_repeat && (N & (N - 1)) == 0, "illegal repeat"); \
    uint32_t* r = reinterpret_cast<uint32_t*>(destination);                           \
    CASES(CASE)                                                                       \
  }

#define TL_LD_32X32B(repeat, registers) TL_LD_CASE("32x32b", repeat, registers)
#define TL_LD_16X64B(repeat, registers) TL_LD_CASE("16x64b", repeat, registers)
#define TL_LD_16X128B(repeat, registers) TL_LD_CASE("16x128b", repeat, registers)
#define TL_LD_16X256B(repeat, registers) TL_LD_CASE("16x256b", repeat, registers)
TL_LD_FUNCTION(tcgen05_ld_32dp32bNx, TL_REPEATS_1, TL_LD_32X32B, 128)
TL_LD_FUNCTION(tcgen05_ld_16dp64bNx, TL_REPEATS_1, TL_LD_16X64B, 128)
TL_LD_FUNCTION(tcgen05_ld_16dp128bNx, TL_REPEATS_2, TL_LD_16X128B, 64)
TL_LD_FUNCTION(tcgen05_ld_16dp256bNx, TL_REPEATS_4, TL_LD_16X256B, 32)

#define TL_LD_16X32BX2_INSTRUCTION(repeat, registers, pack)                                        \
  asm volatile("tcgen05.ld.sync.aligned.16x32bx2.x" #repeat pack ".b32 {" TL_REGISTERS_##registers \
               "}, [%" #registers "], %" TL_NEXT_##registers ";"                                   \
               : TL_OUTPUTS_##registers(r, 0)                                                      \
               : "r"(address), "n"(kHalfOffset)                                                    \
               : "memory")
#define TL_LD_16X32BX2(repeat, registers)                          \
  if constexpr (N == repeat) {                                     \
    if constexpr (kPack) {                                         \
      TL_LD_16X32BX2_INSTRUCTION(repeat, registers, ".pack::16b"); \
    } else {                                                       \
      TL_LD_16X32BX2_INSTRUCTION(repeat, registers, "");           \
    }                                                              \
  }

// Threads 16..31 load from kHalfOffset columns further on, in the same 16 lanes.
template <int N, bool kPack, int kHalfOffset, typename T>
TL_DEVICE void tcgen05_ld_16dp32bx2Nx(uint32_t address, T* destination) {
  static_assert(N >= 1 && N <= 128 && (N & (N - 1)) == 0, "illegal repeat");
  uint32_t* r = reinterpret_cast<uint32_t*>(destination);
  TL_REPEATS_1(TL_LD_16X32BX2)
}

// Waits for this warp's loads.
TL_DEVICE void tcgen05_wait_ld() { asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); }

}  // namespace tl
