// The only arrival completes the phase before the bytes are announced.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ alignas(128) uint32_t tile[128];
  __shared__ uint64_t full, empty;
  if (threadIdx.x == 0) {
    tl::mbarrier_init(full, 1);
    tl::mbarrier_init(empty, 128);
    tl::fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
#ifdef FIXED
    tl::mbarrier_expect_tx(full, 512);
    tl::bulk_load(tile, in, 512, full);
    tl::mbarrier_arrive(full);
#else
    tl::mbarrier_arrive(full);
    tl::mbarrier_expect_tx(full, 512);
    tl::bulk_load(tile, in, 512, full);
#endif
  }
  tl::mbarrier_wait(full, 0);
  out[threadIdx.x] = tile[threadIdx.x];
}
