// tcgen05.mma (sm_100a): D = A * B, or D += A * B, issued by one thread.
#pragma once

namespace tl {

enum class UmmaKind { f16, tf32, f8f6f4, i8, mxf8f6f4, mxf4, mxf4nvf4 };

#define TL_UMMA_INSTRUCTION(kind, a, constraint, operand)                                    \
  asm volatile(                                                                              \
      "{\n\t.reg .pred accumulate;\n\tsetp.ne.b32 accumulate, %4, 0;\n\t"                    \
      "tcgen05.mma" TL_UMMA_FORM ".cta_group::%5.kind::" kind " [%0], " a                    \
      ", %2, %3, accumulate;\n\t}" ::"r"(d),                                                 \
      constraint(operand), "l"(b), "r"(instruction), "r"(static_cast<uint32_t>(accumulate)), \
      "n"(kCtas)                                                                             \
      : "memory")

#define TL_UMMA_KINDS(a, constraint, operand)              \
  if constexpr (kKind == UmmaKind::f16) {                  \
    TL_UMMA_INSTRUCTION("f16", a, constraint, operand);    \
  } else if constexpr (kKind == UmmaKind::tf32) {          \
    TL_UMMA_INSTRUCTION("tf32", a, constraint, operand);   \
  } else if constexpr (kKind == UmmaKind::f8f6f4) {        \
    TL_UMMA_INSTRUCTION("f8f6f4", a, constraint, operand); \
  } else {                                                 \
    TL_UMMA_INSTRUCTION("i8", a, constraint, operand);     \
  }

#define TL_UMMA_FORM ""
// kCtas: 2 where a pair of CTAs computes it, each with its rows of A and D, and half of B.
//
// A in shared memory.
template <UmmaKind kKind, int kCtas = 1>
TL_DEVICE void tcgen05_mma_ss(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction,
                              bool accumulate) {
  TL_UMMA_KINDS("%1", "l", a)
}

// A in tensor memory.
template <UmmaKind kKind, int kCtas = 1>
TL_DEVICE void tcgen05_mma_ts(uint32_t d, uint32_t a, uint64_t b, uint32_t instruction,
                              bool accumulate){TL_UMMA_KINDS("[%1]", "r", a)}
#undef TL_UMMA_FORM

// M = 32: tcgen05.mma.ws, whose columns lie in four groups of lanes.
#define TL_UMMA_FORM ".ws"
template <UmmaKind kKind, int kCtas = 1>
TL_DEVICE void tcgen05_mma_ws_ss(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction,
                                 bool accumulate) {
  TL_UMMA_KINDS("%1", "l", a)
}
#undef TL_UMMA_FORM
#undef TL_UMMA_KINDS
#undef TL_UMMA_INSTRUCTION

// A of which two of each four elements along K are there; metadata says which.
template <UmmaKind kKind>
TL_DEVICE void tcgen05_mma_sp_ss(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction,
                                 uint32_t metadata, bool accumulate) {
#define TL_UMMA_SPARSE(kind)                                                                  \
  asm volatile(                                                                               \
      "{\n\t.reg .pred accumulate;\n\tsetp.ne.b32 accumulate, %5, 0;\n\t"                     \
      "tcgen05.mma.sp.cta_group::1.kind::" kind                                               \
      " [%0], %1, %2, [%4], %3, accumulate;\n\t}" ::"r"(d),                                   \
      "l"(a), "l"(b), "r"(instruction), "r"(metadata), "r"(static_cast<uint32_t>(accumulate)) \
      : "memory")
  if constexpr (kKind == UmmaKind::f16) {
    TL_UMMA_SPARSE("f16");
  } else {
    TL_UMMA_SPARSE("f8f6f4");
  }
#undef TL_UMMA_SPARSE
}

#define TL_UMMA_INSTRUCTION(kind, a, constraint, operand)                        \
  asm volatile(                                                                  \
      "{\n\t.reg .pred accumulate;\n\tsetp.ne.b32 accumulate, %6, 0;\n\t"        \
      "tcgen05.mma.cta_group::%7.kind::" kind " [%0], " a                        \
      ", %2, %3, [%4], [%5], accumulate;\n\t}" ::"r"(d),                         \
      constraint(operand), "l"(b), "r"(instruction), "r"(scale_a), "r"(scale_b), \
      "r"(static_cast<uint32_t>(accumulate)), "n"(kCtas)                         \
      : "memory")

#define TL_UMMA_KINDS(a, constraint, operand)                                    \
  if constexpr (kKind == UmmaKind::mxf8f6f4) {                                   \
    TL_UMMA_INSTRUCTION("mxf8f6f4.block_scale.block32", a, constraint, operand); \
  } else if constexpr (kKind == UmmaKind::mxf4) {                                \
    TL_UMMA_INSTRUCTION("mxf4.block_scale.block32", a, constraint, operand);     \
  } else {                                                                       \
    TL_UMMA_INSTRUCTION("mxf4nvf4.block_scale.block16", a, constraint, operand); \
  }

// Each element is multiplied by the scale factor of its block, at the addresses scale_a, scale_b.
template <UmmaKind kKind, int kCtas = 1>
TL_DEVICE void tcgen05_mma_scaled_ss(uint32_t d, uint64_t a, uint64_t b, uint32_t instruction,
                                     uint32_t scale_a, uint32_t scale_b, bool accumulate) {
  TL_UMMA_KINDS("%1", "l", a)
}
template <UmmaKind kKind, int kCtas = 1>
TL_DEVICE void tcgen05_mma_scaled_ts(uint32_t d, uint32_t a, uint64_t b, uint32_t instruction,
                                     uint32_t scale_a, uint32_t scale_b, bool accumulate) {
  TL_UMMA_KINDS("[%1]", "r", a)
}

#undef TL_UMMA_KINDS
#undef TL_UMMA_INSTRUCTION

}  // namespace tl
