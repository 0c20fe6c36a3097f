// Only half of the readers synchronise before the tile is loaded anew.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ alignas(128) uint32_t tile[128];
  __shared__ uint64_t full, empty;
  if (threadIdx.x == 0) {
    tl::mbarrier_init(full, 1);
    tl::mbarrier_init(empty, 64);
    tl::fence_barrier_init();
  }
  __syncthreads();
  for (int i = 0; i < 2; ++i) {
    if (threadIdx.x == 0) {
      tl::mbarrier_arrive_expect_tx(full, 512);
      tl::bulk_load(tile, in + i * 128, 512, full);
    }
    tl::mbarrier_wait(full, i);
    out[i * 128 + threadIdx.x] = tile[127 - threadIdx.x];
#ifdef FIXED
    __syncthreads();
#else
    if (threadIdx.x < 64) tl::sync_threads(1, 64);
#endif
  }
}
