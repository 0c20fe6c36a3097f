// D = (A * factors) * (B * factors) + D by mma.sync (sm_120a): elements of 4 or 8 bits, and a
// factor for each row of A, column of B, and block along K.
#pragma once

namespace tl {

// Loads the factors of four blocks to a word.
TL_DEVICE void load_scales(uint32_t* word, const void* factors) {
  *word = *static_cast<const uint32_t*>(factors);
}

// Registers with elements of four or six bits, each in a byte, of rows of 16 bytes that hold 16 in
// their first ones. mma takes those of four bits from bits 2 to 5 of the byte.
template <int kCount, int kBits>
TL_DEVICE void ldmatrix_padded(void* registers, const void* row) {
  auto* r = static_cast<uint32_t*>(registers);
  uint32_t address = shared_address(row);
#define TL_LDMATRIX(type)                                                                       \
  if constexpr (kCount == 4) {                                                                  \
    asm volatile("ldmatrix.sync.aligned.m8n16.x4.shared.b8x16." type " {%0, %1, %2, %3}, [%4];" \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                               \
                 : "r"(address)                                                                 \
                 : "memory");                                                                   \
  } else if constexpr (kCount == 2) {                                                           \
    asm volatile("ldmatrix.sync.aligned.m8n16.x2.shared.b8x16." type " {%0, %1}, [%2];"         \
                 : "=r"(r[0]), "=r"(r[1])                                                       \
                 : "r"(address)                                                                 \
                 : "memory");                                                                   \
  } else {                                                                                      \
    asm volatile("ldmatrix.sync.aligned.m8n16.x1.shared.b8x16." type " {%0}, [%1];"             \
                 : "=r"(r[0])                                                                   \
                 : "r"(address)                                                                 \
                 : "memory");                                                                   \
  }
  if constexpr (kBits == 6) {
    TL_LDMATRIX("b6x16_p32")
  } else {
    TL_LDMATRIX("b4x16_p64")
    for (int i = 0; i < kCount; ++i) r[i] <<= 2;
  }
#undef TL_LDMATRIX
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
#define TL_MMA_MXF8F6F4(a, b)                                                              \
  TL_MMA_SCALED(mma_mxf8f6f4_##a##_##b,                                                    \
                "kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32." #a "." #b \
                ".f32.ue8m0")

#define TL_MMA_MXF8F6F4_OF(a) \
  TL_MMA_MXF8F6F4(a, e4m3)    \
  TL_MMA_MXF8F6F4(a, e5m2)    \
  TL_MMA_MXF8F6F4(a, e2m3)    \
  TL_MMA_MXF8F6F4(a, e3m2)    \
  TL_MMA_MXF8F6F4(a, e2m1)

TL_MMA_MXF8F6F4_OF(e4m3)
TL_MMA_MXF8F6F4_OF(e5m2)
TL_MMA_MXF8F6F4_OF(e2m3)
TL_MMA_MXF8F6F4_OF(e3m2)
TL_MMA_MXF8F6F4_OF(e2m1)
TL_MMA_SCALED(mma_mxf4,
              "kind::mxf4.block_scale.scale_vec::2X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue8m0")
TL_MMA_SCALED(mma_nvf4,
              "kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3")
#undef TL_MMA_MXF8F6F4_OF
#undef TL_MMA_MXF8F6F4
#undef TL_MMA_SCALED

}  // namespace tl
