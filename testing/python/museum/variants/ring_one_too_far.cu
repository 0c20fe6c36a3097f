// The producer fills a slot of the ring for the second time without a wait.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ alignas(128) uint32_t tile[2][128];
  __shared__ uint64_t full[2], empty[2];
  if (threadIdx.x == 0) {
    for (int s = 0; s < 2; ++s) {
      tl::mbarrier_init(full[s], 1);
      tl::mbarrier_init(empty[s], 128);
    }
    tl::fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x >= 128) {
    if (threadIdx.x == 128)
      for (int i = 0; i < 4; ++i) {
        int s = i & 1;
#ifdef FIXED
        if (i >= 2) tl::mbarrier_wait(empty[s], (i / 2 - 1) & 1);
#else
        if (i >= 3) tl::mbarrier_wait(empty[s], (i / 2 - 1) & 1);
#endif
        tl::mbarrier_arrive_expect_tx(full[s], 512);
        tl::bulk_load(tile[s], in + i * 128, 512, full[s]);
      }
  } else
    for (int i = 0; i < 4; ++i) {
      int s = i & 1;
      tl::mbarrier_wait(full[s], (i / 2) & 1);
      out[i * 128 + threadIdx.x] = tile[s][threadIdx.x];
      tl::mbarrier_arrive(empty[s]);
    }
}
