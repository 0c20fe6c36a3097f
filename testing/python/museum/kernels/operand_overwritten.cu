// mlc-ai/TIRx-kernels#7, FP4 MQA: the scale factors of the next query block were copied over
// columns that the tensor core might still read: nobody had waited for the commit of the block
// before.
#include <tl_templates/cuda/tcgen_05.h>

extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ alignas(1024) uint32_t tile[1024];
  __shared__ uint32_t slot;
  __shared__ uint64_t done;
  if (threadIdx.x == 0) tl::mbarrier_init(done, 1);
  if (threadIdx.x < 32) tl::tcgen05_alloc(&slot, 32);
  uint32_t base = 0;
  for (int block = 0; block < 2; ++block) {
#ifdef FIXED
    if (block > 0) tl::mbarrier_wait(done, (block - 1) & 1);
#endif
    for (int i = threadIdx.x; i < 1024; i += 128) tile[i] = in[threadIdx.x] + block + 1;
    tl::fence_proxy_async();
    __syncthreads();
    base = slot;
    if (threadIdx.x == 0) {
      tl::tmem_copy(base, tile);
      tl::tcgen05_commit(done);
    }
  }
#ifndef FIXED
  tl::mbarrier_wait(done, 0);
#endif
  tl::mbarrier_wait(done, 1);
  tl::tcgen05_after_thread_sync();
  uint32_t value = tl::tmem_load(tl::own_lanes(base));
  tl::tmem_wait_load();
  out[threadIdx.x] = value != 0;
  tl::sync_tensor();
  if (threadIdx.x < 32) tl::tcgen05_dealloc(base, 32);
}
