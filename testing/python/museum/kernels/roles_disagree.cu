// marin-community/marin#8870, grouped GEMM of QuACK: some warps decoded their tile before
// griddepcontrol.wait and saw another problem than the loading warp. They retired, and the loading
// warp waited for an empty slot that nobody would release.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ uint32_t tile[32];
  __shared__ uint64_t full, empty;
  if (threadIdx.x == 0) {
    tl::mbarrier_init(full, 32);
    tl::mbarrier_init(empty, 32);
  }
  __syncthreads();
  int lane = threadIdx.x % 32;
  int loaded = 4;
#ifdef FIXED
  int computed = 4;
#else
  int computed = 2;
#endif
  if (threadIdx.x < 32) {
    for (int i = 0; i < loaded; ++i) {
      tl::mbarrier_wait(empty, (i & 1) ^ 1);
      tile[lane] = in[lane] + i;
      tl::mbarrier_arrive(full);
    }
  } else if (threadIdx.x < 64) {
    for (int i = 0; i < computed; ++i) {
      tl::mbarrier_wait(full, i & 1);
      out[i * 32 + lane] = tile[lane];
      tl::mbarrier_arrive(empty);
    }
  }
}
