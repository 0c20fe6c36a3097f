// tcgen05.ld: tensor memory to the registers of a warp (sm_100a).
//
// tcgen05_load<instructions..>(address, registers) issues the instructions, waits for them, and
// puts what they loaded into the array. The address carries the lane in its upper half.
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

// One instruction: N repeats from `kOffset` (lane << 16 | column) beyond the address of the copy
// into the array's 32-bit registers from kFirst on. kPack collects the low halves of two columns
// in a register.
#define TL_LD_STRUCT(name, CASES, CASE, per_repeat, max_repeat)                       \
  template <int N, bool kPack, uint32_t kOffset, int kFirst>                          \
  struct name {                                                                       \
    static_assert(N >= 1 && N <= max_repeat && (N & (N - 1)) == 0, "illegal repeat"); \
    static constexpr int kRegisters = N * per_repeat;                                 \
    static constexpr int kTo = kFirst;                                                \
    TL_DEVICE static void issue(uint32_t base, uint32_t* r) {                         \
      uint32_t address = base + kOffset;                                              \
      CASES(CASE)                                                                     \
    }                                                                                 \
  };

#define TL_LD_32X32B(repeat, registers) TL_LD_CASE("32x32b", repeat, registers)
#define TL_LD_16X64B(repeat, registers) TL_LD_CASE("16x64b", repeat, registers)
#define TL_LD_16X128B(repeat, registers) TL_LD_CASE("16x128b", repeat, registers)
#define TL_LD_16X256B(repeat, registers) TL_LD_CASE("16x256b", repeat, registers)
TL_LD_STRUCT(TmemLd32x32b, TL_REPEATS_1, TL_LD_32X32B, 1, 128)
TL_LD_STRUCT(TmemLd16x64b, TL_REPEATS_1, TL_LD_16X64B, 1, 128)
TL_LD_STRUCT(TmemLd16x128b, TL_REPEATS_2, TL_LD_16X128B, 2, 64)
TL_LD_STRUCT(TmemLd16x256b, TL_REPEATS_4, TL_LD_16X256B, 4, 32)

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
template <int N, bool kPack, uint32_t kOffset, int kFirst, int kHalfOffset>
struct TmemLd16x32bx2 {
  static_assert(N >= 1 && N <= 128 && (N & (N - 1)) == 0, "illegal repeat");
  static constexpr int kRegisters = N;
  static constexpr int kTo = kFirst;
  TL_DEVICE static void issue(uint32_t base, uint32_t* r) {
    uint32_t address = base + kOffset;
    TL_REPEATS_1(TL_LD_16X32BX2)
  }
};

// The loaded registers have no value before the wait. Nothing keeps the compiler from moving what
// uses them before it, the store to an array in local memory among others: therefore they get
// another definition after the wait, and only that one leaves this function.
template <typename First, typename... Rest, typename T>
TL_DEVICE void tcgen05_load(uint32_t address, T* destination) {
  uint32_t loaded[First::kRegisters];
  First::issue(address, loaded);
  if constexpr (sizeof...(Rest) == 0) {
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
  } else {
    tcgen05_load<Rest...>(address, destination);
  }
  uint32_t* r = reinterpret_cast<uint32_t*>(destination) + First::kTo;
#pragma unroll
  for (int i = 0; i < First::kRegisters; ++i) {
    asm volatile("" : "+r"(loaded[i]));
    r[i] = loaded[i];
  }
}

}  // namespace tl
