// flashinfer-ai/flashinfer#5334 (gated delta net) and vllm-project/flash-attention#182: a stage of
// tensor memory was released while tcgen05.ld still read it. The register scoreboard orders uses
// of the registers, not the read against the next writer.
#include <tl_templates/cuda/tcgen_05.h>

extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ uint32_t slot;
  __shared__ uint64_t full, empty;
  if (threadIdx.x == 0) {
    tl::mbarrier_init(full, 128);
    tl::mbarrier_init(empty, 128);
  }
  if (threadIdx.x < 32) tl::tcgen05_alloc(&slot, 32);
  tl::sync_tensor();
  uint32_t own = tl::own_lanes(slot);
  int lane = threadIdx.x % 128;
  for (int i = 0; i < 2; ++i) {
    if (threadIdx.x < 128) {
      tl::mbarrier_wait(empty, (i & 1) ^ 1);
      tl::tcgen05_after_thread_sync();
      tl::tmem_store(own, in[lane] + i);
      tl::tmem_wait_store();
      tl::tcgen05_before_thread_sync();
      tl::mbarrier_arrive(full);
    } else {
      tl::mbarrier_wait(full, i & 1);
      tl::tcgen05_after_thread_sync();
      uint32_t value = tl::tmem_load(own);
#ifdef FIXED
      tl::tmem_wait_load();
#endif
      tl::tcgen05_before_thread_sync();
      tl::mbarrier_arrive(empty);
#ifndef FIXED
      tl::tmem_wait_load();
#endif
      out[i * 128 + lane] = value;
    }
  }
  tl::sync_tensor();
  if (threadIdx.x < 32) tl::tcgen05_dealloc(slot, 32);
}
