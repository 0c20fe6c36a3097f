// sgl-project/sglang#39124, KDA prefill on SM103: threads widened a tile in shared memory, and the
// tensor core's pipe read it after __syncthreads alone. 86 of 100 runs differed.
#include <tl_templates/cuda/tcgen_05.h>

extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ alignas(1024) uint32_t tile[1024];
  __shared__ uint32_t slot;
  __shared__ uint64_t done;
  for (int i = threadIdx.x; i < 1024; i += 128) tile[i] = in[threadIdx.x];
#ifdef FIXED
  tl::fence_proxy_async();
#endif
  if (threadIdx.x == 0) tl::mbarrier_init(done, 1);
  if (threadIdx.x < 32) tl::tcgen05_alloc(&slot, 32);
  tl::sync_tensor();
  uint32_t base = slot;
  if (threadIdx.x == 0) {
    tl::tmem_copy(base, tile);
    tl::tcgen05_commit(done);
  }
  tl::mbarrier_wait(done, 0);
  tl::tcgen05_after_thread_sync();
  uint32_t value = tl::tmem_load(tl::own_lanes(base));
  tl::tmem_wait_load();
  out[threadIdx.x] = value != 0;
  tl::sync_tensor();
  if (threadIdx.x < 32) tl::tcgen05_dealloc(base, 32);
}
