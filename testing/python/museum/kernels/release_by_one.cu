// TIRx-kernels 0.1.2, NVFP4 GEMM of 4096 rows: thread 0 arrived on the barrier of empty slots
// before the barrier of its warpgroup, so the slot was filled again while others read it.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ uint32_t tile[128];
  __shared__ uint64_t full, empty;
  if (threadIdx.x == 0) {
    tl::mbarrier_init(full, 128);
    tl::mbarrier_init(empty, 1);
  }
  __syncthreads();
  int lane = threadIdx.x % 128;
  if (threadIdx.x < 128) {
    for (int i = 0; i < 4; ++i) {
      tl::mbarrier_wait(empty, (i & 1) ^ 1);
      tile[lane] = in[lane] + i;
      tl::mbarrier_arrive(full);
    }
  } else {
    for (int i = 0; i < 4; ++i) {
      tl::mbarrier_wait(full, i & 1);
#ifdef FIXED
      out[i * 128 + lane] = tile[127 - lane];
      tl::sync_threads(1, 128);
      if (lane == 0) tl::mbarrier_arrive(empty);
#else
      if (lane == 0) tl::mbarrier_arrive(empty);
      out[i * 128 + lane] = tile[127 - lane];
      tl::sync_threads(1, 128);
#endif
    }
  }
}
