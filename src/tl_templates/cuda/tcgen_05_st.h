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

// The function of one instruction.
template <TmemShape kShape, int N, bool kUnpack, int kHalfOffset>
struct TmemStInstruction;

// Defines an instruction that the kernel uses; `registers` is the number of them that it stores.
#define TL_TMEM_ST(shape, repeat, registers, unpack)                                 \
  template <>                                                                        \
  struct tl::TmemStInstruction<tl::TmemShape::k##shape, repeat, unpack, 0> {         \
    TL_DEVICE static void issue(uint32_t address, const uint32_t* r) {               \
      asm volatile("tcgen05.st.sync.aligned." #shape ".x" #repeat TL_UNPACK_##unpack \
                   ".b32 [%" #registers "], {" TL_REGISTERS_##registers "};"         \
                   :                                                                 \
                   : TL_INPUTS_##registers, "r"(address)                             \
                   : "memory");                                                      \
    }                                                                                \
  };

// The same of 16x32bx2: threads 16..31 store kHalfOffset columns further on, in the same 16 lanes.
#define TL_TMEM_ST_HALVES(repeat, unpack)                                                     \
  template <int kHalfOffset>                                                                  \
  struct tl::TmemStInstruction<tl::TmemShape::k16x32bx2, repeat, unpack, kHalfOffset> {       \
    TL_DEVICE static void issue(uint32_t address, const uint32_t* r) {                        \
      asm volatile("tcgen05.st.sync.aligned.16x32bx2.x" #repeat TL_UNPACK_##unpack            \
                   ".b32 [%" #repeat "], %" TL_NEXT_##repeat ", {" TL_REGISTERS_##repeat "};" \
                   :                                                                          \
                   : TL_INPUTS_##repeat, "r"(address), "n"(kHalfOffset)                       \
                   : "memory");                                                               \
    }                                                                                         \
  };

template <TmemShape kShape, int N, bool kUnpack, int kHalfOffset = 0, typename T>
TL_DEVICE void tmem_store(uint32_t address, const T* source) {
  const uint32_t* r = reinterpret_cast<const uint32_t*>(source);
  TmemStInstruction<kShape, N, kUnpack, kHalfOffset>::issue(address, r);
}
template <int N, bool kUnpack, typename T>
TL_DEVICE void tcgen05_st_32dp32bNx(uint32_t address, const T* source) {
  tmem_store<TmemShape::k32x32b, N, kUnpack>(address, source);
}
template <int N, bool kUnpack, typename T>
TL_DEVICE void tcgen05_st_16dp64bNx(uint32_t address, const T* source) {
  tmem_store<TmemShape::k16x64b, N, kUnpack>(address, source);
}
template <int N, bool kUnpack, typename T>
TL_DEVICE void tcgen05_st_16dp128bNx(uint32_t address, const T* source) {
  tmem_store<TmemShape::k16x128b, N, kUnpack>(address, source);
}
template <int N, bool kUnpack, typename T>
TL_DEVICE void tcgen05_st_16dp256bNx(uint32_t address, const T* source) {
  tmem_store<TmemShape::k16x256b, N, kUnpack>(address, source);
}
template <int N, bool kUnpack, int kHalfOffset, typename T>
TL_DEVICE void tcgen05_st_16dp32bx2Nx(uint32_t address, const T* source) {
  tmem_store<TmemShape::k16x32bx2, N, kUnpack, kHalfOffset>(address, source);
}

// Waits for this warp's stores.
TL_DEVICE void tcgen05_wait_st() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }

}  // namespace tl
