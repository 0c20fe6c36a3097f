// stmatrix (sm_90 and later).
#pragma once

namespace tl {

// Matrices of 8 rows of 16 bytes from a register of each thread; lanes 8i to 8i + 7 give the rows
// of matrix i. Transposed, what four lanes hold is a column.
#define TL_STMATRIX(name, form)                                                                   \
  template <int kCount>                                                                           \
  TL_DEVICE void name(void* row, const void* registers) {                                         \
    auto* r = static_cast<const uint32_t*>(registers);                                            \
    uint32_t address = shared_address(row);                                                       \
    if constexpr (kCount == 4) {                                                                  \
      asm volatile("stmatrix.sync.aligned.m8n8.x4" form                                           \
                   ".shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),                          \
                   "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])                                     \
                   : "memory");                                                                   \
    } else if constexpr (kCount == 2) {                                                           \
      asm volatile("stmatrix.sync.aligned.m8n8.x2" form                                           \
                   ".shared.b16 [%0], {%1, %2};" ::"r"(address),                                  \
                   "r"(r[0]), "r"(r[1])                                                           \
                   : "memory");                                                                   \
    } else {                                                                                      \
      asm volatile("stmatrix.sync.aligned.m8n8.x1" form ".shared.b16 [%0], {%1};" ::"r"(address), \
                   "r"(r[0])                                                                      \
                   : "memory");                                                                   \
    }                                                                                             \
  }
TL_STMATRIX(stmatrix, "")
TL_STMATRIX(stmatrix_transposed, ".trans")
#undef TL_STMATRIX

}  // namespace tl
