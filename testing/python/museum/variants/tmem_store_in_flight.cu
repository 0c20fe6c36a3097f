// Threads tell of a store to tensor memory before it is complete.
#include <tl_templates/cuda/tcgen_05.h>
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ uint32_t slot;
  __shared__ uint64_t full;
  if (threadIdx.x == 0) tl::mbarrier_init(full, 128);
  if (threadIdx.x < 32) tl::tcgen05_alloc(&slot, 32);
  tl::sync_tensor();
  uint32_t own = tl::own_lanes(slot);
  int lane = threadIdx.x % 128;
  if (threadIdx.x < 128) {
    tl::tmem_store(own, in[lane]);
#ifdef FIXED
    tl::tmem_wait_store();
#endif
    tl::tcgen05_before_thread_sync();
    tl::mbarrier_arrive(full);
#ifndef FIXED
    tl::tmem_wait_store();
#endif
  } else {
    tl::mbarrier_wait(full, 0);
    tl::tcgen05_after_thread_sync();
    uint32_t v = tl::tmem_load(own);
    tl::tmem_wait_load();
    out[lane] = v;
  }
  tl::sync_tensor();
  if (threadIdx.x < 32) tl::tcgen05_dealloc(slot, 32);
}
