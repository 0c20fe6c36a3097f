// tcgen05.ld: tensor memory to the registers of a warp (sm_100a).
//
// tcgen05_load<instructions..>(address, registers) issues the instructions, waits for them, and
// puts what they loaded into the array. The address carries the lane in its upper half.
#pragma once

#include "tcgen_05_operands.h"

namespace tl {

// The function of one instruction. kPack collects the low halves of two columns in a register.
template <TmemShape kShape, int N, bool kPack, int kHalfOffset>
struct TmemLdInstruction;

// Defines an instruction that the kernel uses; `registers` is the number of them that it loads.
#define TL_TMEM_LD(shape, repeat, registers, pack)                               \
  template <>                                                                    \
  struct tl::TmemLdInstruction<tl::TmemShape::k##shape, repeat, pack, 0> {       \
    enum { kRegisters = registers };                                             \
    TL_DEVICE static void issue(uint32_t address, uint32_t* r) {                 \
      asm volatile("tcgen05.ld.sync.aligned." #shape ".x" #repeat TL_PACK_##pack \
                   ".b32 {" TL_REGISTERS_##registers "}, [%" #registers "];"     \
                   : TL_OUTPUTS_##registers                                      \
                   : "r"(address)                                                \
                   : "memory");                                                  \
    }                                                                            \
  };

// The same of 16x32bx2: threads 16..31 load from kHalfOffset columns further on, in the same 16
// lanes.
#define TL_TMEM_LD_HALVES(repeat, pack)                                                       \
  template <int kHalfOffset>                                                                  \
  struct tl::TmemLdInstruction<tl::TmemShape::k16x32bx2, repeat, pack, kHalfOffset> {         \
    enum { kRegisters = repeat };                                                             \
    TL_DEVICE static void issue(uint32_t address, uint32_t* r) {                              \
      asm volatile("tcgen05.ld.sync.aligned.16x32bx2.x" #repeat TL_PACK_##pack                \
                   ".b32 {" TL_REGISTERS_##repeat "}, [%" #repeat "], %" TL_NEXT_##repeat ";" \
                   : TL_OUTPUTS_##repeat                                                      \
                   : "r"(address), "n"(kHalfOffset)                                           \
                   : "memory");                                                               \
    }                                                                                         \
  };

// An instruction of a copy: N repeats from `kOffset` (lane << 16 | column) beyond the address of
// the copy into the array's 32-bit registers from kFirst on.
template <TmemShape kShape, int N, bool kPack, uint32_t kOffset, int kFirst, int kHalfOffset = 0>
struct TmemLd {
  using Instruction = TmemLdInstruction<kShape, N, kPack, kHalfOffset>;
  enum { kRegisters = Instruction::kRegisters, kTo = kFirst };
  TL_DEVICE static void issue(uint32_t base, uint32_t* r) { Instruction::issue(base + kOffset, r); }
};

template <int N, bool kPack, uint32_t kOffset, int kFirst>
using TmemLd32x32b = TmemLd<TmemShape::k32x32b, N, kPack, kOffset, kFirst>;
template <int N, bool kPack, uint32_t kOffset, int kFirst>
using TmemLd16x64b = TmemLd<TmemShape::k16x64b, N, kPack, kOffset, kFirst>;
template <int N, bool kPack, uint32_t kOffset, int kFirst>
using TmemLd16x128b = TmemLd<TmemShape::k16x128b, N, kPack, kOffset, kFirst>;
template <int N, bool kPack, uint32_t kOffset, int kFirst>
using TmemLd16x256b = TmemLd<TmemShape::k16x256b, N, kPack, kOffset, kFirst>;
template <int N, bool kPack, uint32_t kOffset, int kFirst, int kHalfOffset>
using TmemLd16x32bx2 = TmemLd<TmemShape::k16x32bx2, N, kPack, kOffset, kFirst, kHalfOffset>;

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
