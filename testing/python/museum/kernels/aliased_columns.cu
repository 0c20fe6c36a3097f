// facebookexperimental/triton#1993, backward of attention: two buffers shared columns of tensor
// memory. The pass that places barriers knew shared memory alone, so one warp's store to the
// second buffer raced with another warp's load of the first.
#include <tl_templates/cuda/tcgen_05.h>

extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ uint32_t slot;
  if (threadIdx.x < 32) tl::tcgen05_alloc(&slot, 32);
  tl::sync_tensor();
  uint32_t own = tl::own_lanes(slot);
  int lane = threadIdx.x % 128;
  if (threadIdx.x < 128) {
    tl::tmem_store(own, in[lane]);
    tl::tmem_wait_store();
    uint32_t value = tl::tmem_load(own);
    tl::tmem_wait_load();
    out[lane] = value;
  }
#ifdef FIXED
  tl::sync_tensor();
#endif
  if (threadIdx.x >= 128) {
    tl::tmem_store(own, in[lane] + 1);
    tl::tmem_wait_store();
  }
  tl::sync_tensor();
  if (threadIdx.x < 32) tl::tcgen05_dealloc(slot, 32);
}
