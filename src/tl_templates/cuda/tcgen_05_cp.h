// tcgen05.cp: shared memory to tensor memory (sm_100a), issued by one thread.
//
// tcgen05_cp<shape>(address, descriptor) copies rows of 16 or 32 bytes from where a matrix
// descriptor says (see mma_sm100.h) to the columns from `address` on, in all 128 lanes; kCtas: 2
// where both CTAs of a pair do so, each from its own shared memory. The thread's later tcgen05.mma
// see the result; all others wait for tcgen05_commit.
#pragma once

namespace tl {

// Source rows x bits. With fewer than 128 rows each goes to several lanes: row r of 02_13 to r and
// r + 64, of 01_23 to 32 lanes further, of 32 rows to the same lane of every quarter.
enum class TmemCpShape { k128x256b, k128x128b, k64x128b_02_13, k64x128b_01_23, k32x128b };

#define TL_CP_CASE(which, spelling)                                                \
  if constexpr (kShape == TmemCpShape::which) {                                    \
    asm volatile("tcgen05.cp.cta_group::%2." spelling " [%0], %1;" ::"r"(address), \
                 "l"(descriptor), "n"(kCtas)                                       \
                 : "memory");                                                      \
  }

template <TmemCpShape kShape, int kCtas = 1>
TL_DEVICE void tcgen05_cp(uint32_t address, uint64_t descriptor) {
  TL_CP_CASE(k128x256b, "128x256b")
  TL_CP_CASE(k128x128b, "128x128b")
  TL_CP_CASE(k64x128b_02_13, "64x128b.warpx2::02_13")
  TL_CP_CASE(k64x128b_01_23, "64x128b.warpx2::01_23")
  TL_CP_CASE(k32x128b, "32x128b.warpx4")
}

#undef TL_CP_CASE

}  // namespace tl
