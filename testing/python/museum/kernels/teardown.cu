// mlc-ai/TIRx-kernels#27, FlashAttention-4: after the persistent loop warp 0 freed tensor memory,
// while the correction warpgroup had its last read of it still to do.
#include <tl_templates/cuda/tcgen_05.h>

extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ uint32_t slot;
  __shared__ uint64_t ready;
  bool allocates = threadIdx.x < 32;
  bool corrects = threadIdx.x >= 128;
  if (threadIdx.x == 0) tl::mbarrier_init(ready, 128);
  if (allocates) tl::tcgen05_alloc(&slot, 32);
  tl::sync_tensor();
  uint32_t base = slot;
  if (!corrects) {
    tl::tmem_store(tl::own_lanes(base), in[threadIdx.x]);
    tl::tmem_wait_store();
    tl::tcgen05_before_thread_sync();
    tl::mbarrier_arrive(ready);
  } else {
    tl::mbarrier_wait(ready, 0);
    tl::tcgen05_after_thread_sync();
    uint32_t value = tl::tmem_load(tl::own_lanes(base));
    tl::tmem_wait_load();
    out[threadIdx.x - 128] = value;
  }
#ifdef FIXED
  tl::sync_tensor();
#endif
  if (allocates) tl::tcgen05_dealloc(base, 32);
}
