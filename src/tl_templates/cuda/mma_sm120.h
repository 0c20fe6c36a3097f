// D = (A * factors) * (B * factors) + D by mma.sync (sm_120a): elements of 4 or 8 bits, and a
// factor for each row of A, column of B, and block along K.
#pragma once

namespace tl {

// The factors of four blocks, in a word.
TL_DEVICE void load_scales(uint32_t* word, const void* factors) {
  *word = *static_cast<const uint32_t*>(factors);
}

// Four registers of A, two of B. The factors begin with a byte of a word that a thread of each quad
// holds: the rows of A with threads 2 row_atom and 2 row_atom + 1, columns of B with column_atom.
#define TL_MMA_SCALED(name, instruction)                                                           \
  TL_DEVICE void name(void* accumulators, const void* a_registers, const void* b_registers,        \
                      const uint32_t* a_scales, const uint32_t* b_scales, int byte, int row_atom,  \
                      int column_atom) {                                                           \
    auto* d = static_cast<float*>(accumulators);                                                   \
    auto* a = static_cast<const uint32_t*>(a_registers);                                           \
    auto* b = static_cast<const uint32_t*>(b_registers);                                           \
    auto first = static_cast<uint16_t>(byte);                                                      \
    asm volatile("mma.sync.aligned." instruction                                                   \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, "               \
                 "%10, {%12, %13}, %11, {%12, %14};"                                               \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]),               \
                   "r"(*a_scales), "r"(*b_scales), "h"(first),                                     \
                   "h"(static_cast<uint16_t>(row_atom)), "h"(static_cast<uint16_t>(column_atom))); \
  }
#define TL_MMA_MXF8(a, b)                                                                  \
  TL_MMA_SCALED(mma_mxf8_##a##_##b,                                                        \
                "kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32." #a "." #b \
                ".f32.ue8m0")

TL_MMA_MXF8(e4m3, e4m3)
TL_MMA_MXF8(e4m3, e5m2)
TL_MMA_MXF8(e5m2, e4m3)
TL_MMA_MXF8(e5m2, e5m2)
TL_MMA_SCALED(mma_mxf4,
              "kind::mxf4.block_scale.scale_vec::2X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue8m0")
TL_MMA_SCALED(mma_nvf4,
              "kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3")
#undef TL_MMA_MXF8
#undef TL_MMA_SCALED

}  // namespace tl
