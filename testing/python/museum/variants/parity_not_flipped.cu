// The consumer waits for the parity of the first phase in each round.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ alignas(128) uint32_t tile[2][128];
  __shared__ uint64_t full, empty;
  if (threadIdx.x == 0) {
    tl::mbarrier_init(full, 1);
    tl::mbarrier_init(empty, 128);
    tl::fence_barrier_init();
  }
  __syncthreads();
  for (int i = 0; i < 2; ++i) {
    if (threadIdx.x == 0) {
      tl::mbarrier_arrive_expect_tx(full, 512);
      tl::bulk_load(tile[i], in + i * 128, 512, full);
    }
#ifdef FIXED
    tl::mbarrier_wait(full, i & 1);
#else
    tl::mbarrier_wait(full, 0);
#endif
    out[i * 128 + threadIdx.x] = tile[i][threadIdx.x];
    __syncthreads();
  }
}
