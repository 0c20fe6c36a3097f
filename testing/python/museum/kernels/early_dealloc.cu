// mlc-ai/TIRx-kernels#19, gated delta net, and triton-lang/triton#7994: the warp that allocated
// tensor memory freed it after its own loop, while other warps of its group still read theirs.
#include <tl_templates/cuda/tcgen_05.h>

extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ uint32_t slot;
  bool allocates = threadIdx.x < 32;
  if (allocates) tl::tcgen05_alloc(&slot, 32);
  tl::sync_tensor();
  uint32_t own = tl::own_lanes(slot);
  tl::tmem_store(own, in[threadIdx.x]);
  tl::tmem_wait_store();
  uint32_t value = tl::tmem_load(own);
  tl::tmem_wait_load();
  out[threadIdx.x] = value;
#ifdef FIXED
  tl::sync_tensor();
#endif
  if (allocates) tl::tcgen05_dealloc(slot, 32);
}
