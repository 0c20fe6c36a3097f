// mlc-ai/TIRx-kernels#9, NVFP4 GEMM: an mbarrier was initialised, and no fence.mbarrier_init made
// the initialisation visible to the copies that complete on it.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ alignas(16) uint32_t tile[128];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    tl::mbarrier_init(full, 1);
#ifdef FIXED
    tl::fence_barrier_init();
#endif
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    tl::mbarrier_arrive_expect_tx(full, sizeof(tile));
    tl::bulk_load(tile, in, sizeof(tile), full);
  }
  tl::mbarrier_wait(full, 0);
  out[threadIdx.x] = tile[threadIdx.x];
}
