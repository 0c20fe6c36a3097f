// The commit is made by another thread than the copy that it should track.
#include <tl_templates/cuda/tcgen_05.h>
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ alignas(1024) uint32_t tile[1024];
  __shared__ uint32_t slot;
  __shared__ uint64_t done;
  if (threadIdx.x == 0) tl::mbarrier_init(done, 1);
  if (threadIdx.x < 32) tl::tcgen05_alloc(&slot, 32);
  for (int i = threadIdx.x; i < 1024; i += 128) tile[i] = in[threadIdx.x] + 1;
  tl::fence_proxy_async();
  tl::sync_tensor();
  if (threadIdx.x == 0) tl::tmem_copy(slot, tile);
#ifdef FIXED
  if (threadIdx.x == 0) tl::tcgen05_commit(done);
#else
  if (threadIdx.x == 32) tl::tcgen05_commit(done);
#endif
  tl::mbarrier_wait(done, 0);
  tl::tcgen05_after_thread_sync();
  uint32_t v = tl::tmem_load(tl::own_lanes(slot));
  tl::tmem_wait_load();
  out[threadIdx.x] = v != 0;
  tl::sync_tensor();
  if (threadIdx.x < 32) tl::tcgen05_dealloc(slot, 32);
}
