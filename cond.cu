#include <tl_templates/cuda/common.h>
#include <tl_templates/cuda/barrier.h>
#include <tl_templates/cuda/copy_sm90.h>
#include <tl_templates/cuda/matrix_descriptor.h>
#include <tl_templates/cuda/mma_sm90.h>
#include <tl_templates/cuda/tensor_map.h>
#include <tl_templates/cuda/warp.h>

namespace tl {
TL_DEVICE void wgmma_m64n32k16_f32_bf16_bf16_ss_tb(void* accumulators, uint64_t a, uint64_t b,
    bool accumulate) {
  auto* d = static_cast<float*>(accumulators);
  asm volatile(
      "{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %18, 0;\n\t"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16"
      " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11,"
      " %12, %13, %14, %15},"
      " %16, %17, p, 1, 1, 0, 1;\n\t}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
        "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
        "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
      : "l"(a), "l"(b), "r"(static_cast<uint32_t>(accumulate)));
}
}  // namespace tl

// p1.py:7
extern "C" __global__ void __launch_bounds__(160, 1) main_kernel(
    float* __restrict__ C,
    const __grid_constant__ CUtensorMap A_map,
    const __grid_constant__ CUtensorMap B_map) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const int bx = blockIdx.x;
  const int by = blockIdx.y;
  const int tx = threadIdx.x;
  const int warp = tl::warp_index(tx);
  if (tx == 0) {
    tl::prefetch_tensor_map(&A_map);
    tl::prefetch_tensor_map(&B_map);
  }
  // p1.py:8
  uint64_t* a_full = reinterpret_cast<uint64_t*>(smem + 147456);
  uint64_t* a_empty = reinterpret_cast<uint64_t*>(smem + 147552);
  // p1.py:7
  if (tx == 0) {
    // p1.py:8
    tl::mbarrier_init(a_full[0], 32);
    tl::mbarrier_init(a_full[1], 32);
    tl::mbarrier_init(a_full[2], 32);
    tl::mbarrier_init(a_full[3], 32);
    tl::mbarrier_init(a_full[4], 32);
    tl::mbarrier_init(a_full[5], 32);
    tl::mbarrier_init(a_full[6], 32);
    tl::mbarrier_init(a_full[7], 32);
    tl::mbarrier_init(a_full[8], 32);
    tl::mbarrier_init(a_full[9], 32);
    tl::mbarrier_init(a_full[10], 32);
    tl::mbarrier_init(a_full[11], 32);
    tl::mbarrier_init(a_empty[0], 128);
    tl::mbarrier_init(a_empty[1], 128);
    tl::mbarrier_init(a_empty[2], 128);
    tl::mbarrier_init(a_empty[3], 128);
    tl::mbarrier_init(a_empty[4], 128);
    tl::mbarrier_init(a_empty[5], 128);
    tl::mbarrier_init(a_empty[6], 128);
    tl::mbarrier_init(a_empty[7], 128);
    tl::mbarrier_init(a_empty[8], 128);
    tl::mbarrier_init(a_empty[9], 128);
    tl::mbarrier_init(a_empty[10], 128);
    tl::mbarrier_init(a_empty[11], 128);
    // p1.py:7
    tl::fence_barrier_init();
  }
  __syncthreads();
  // p1.py:8
  bfloat16_t* a = reinterpret_cast<bfloat16_t*>(smem);
  bfloat16_t* b = reinterpret_cast<bfloat16_t*>(smem + 98304);
  // p1.py:7
  if (warp >= 4) {
    // p1.py:8
    uint32_t a_loads = 0u;
    // p1.py:14
#pragma unroll 1
    for (int step = 0; step < 32; ++step) {
      // p1.py:22
      const int a_slot = int(a_loads % 12u);
      tl::mbarrier_wait(a_empty[a_slot], (a_loads / 12u + 1u) & 1u);
      if (tl::elect_one()) {
        tl::mbarrier_expect_tx(a_full[a_slot], 6144u);
        tl::tma_load(&A_map, a_full[a_slot], a + a_slot * 4096, step * 64, 0);
        tl::tma_load(&B_map, a_full[a_slot], b + a_slot * 2048, bx * 32, step * 64);
      }
      tl::mbarrier_arrive(a_full[a_slot]);
      a_loads = a_loads + 1u;
    }
  } else {
#pragma unroll
    for (int r = 0; r < 36; ++r) {
      const int i0 = r / 3;
      const int i1 = (tx >> 3) + r % 3 * 16;
      const int i2 = (tx & 7) * 8;
      tl::vec<bfloat16_t, 8> a_vec;
#pragma unroll
      for (int v = 0; v < 8; ++v) {
        a_vec[v] = 0.0_bf;
      }
      tl::store(a + ((i0 * 4096 + (i1 + 16) * 64 + i2) ^ ((i1 & 7) * 8)), a_vec);
    }
    // p1.py:8
    uint32_t a_uses = 0u;
    float c[16];
    // p1.py:14
    tl::fence_proxy_async();
    tl::sync_threads(15, 128);
#pragma unroll 1
    for (int step_1 = 0; step_1 < 32; ++step_1) {
      // p1.py:23
      const int a_slot_1 = int(a_uses % 12u);
      tl::mbarrier_wait(a_full[a_slot_1], (a_uses / 12u) & 1u);
      const uint64_t desc_a = tl::matrix_descriptor(a + a_slot_1 * 4096, 4611686293305294848ull);
      const uint64_t desc_b = tl::matrix_descriptor(b + a_slot_1 * 2048, 9223372174293729280ull);
      tl::hold<16>(c);
      tl::wgmma_fence();
      tl::wgmma_m64n32k16_f32_bf16_bf16_ss_tb(c, desc_a, desc_b, step_1 != 0);
      tl::wgmma_m64n32k16_f32_bf16_bf16_ss_tb(c, desc_a + 2ull, desc_b + 64ull, true);
      tl::wgmma_m64n32k16_f32_bf16_bf16_ss_tb(c, desc_a + 4ull, desc_b + 128ull, true);
      tl::wgmma_m64n32k16_f32_bf16_bf16_ss_tb(c, desc_a + 6ull, desc_b + 192ull, true);
      tl::wgmma_commit();
      tl::wgmma_wait<0>();
      tl::hold<16>(c);
      tl::mbarrier_arrive(a_empty[a_slot_1]);
      a_uses = a_uses + 1u;
    }
    // p1.py:25
#pragma unroll
    for (int r_1 = 0; r_1 < 8; ++r_1) {
      const int i = (tx >> 5) * 16 + ((tx & 31) >> 2) + (r_1 & 1) * 8;
      const int j = (tx & 3) * 2 + (r_1 >> 1) * 8;
      if (i < 16) {
        tl::vec<float, 2> C_vec;
#pragma unroll
        for (int v_1 = 0; v_1 < 2; ++v_1) {
          C_vec[v_1] = c[r_1 * 2 + v_1];
        }
        tl::store(C + (i * 256 + (bx * 32 + j)), C_vec);
      }
    }
  }
}
