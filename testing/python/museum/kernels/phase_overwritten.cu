// triton-lang/triton#11334: a barrier of a cluster kept its phase in shared memory. A thread that
// ran ahead flipped it before another warp had read it.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ uint32_t phase;
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) {
    phase = 0;
    tl::mbarrier_init(barrier, 128);
  }
  __syncthreads();
  for (int i = 0; i < 2; ++i) {
    tl::mbarrier_arrive(barrier);
    uint32_t seen = phase;
#ifdef FIXED
    __syncthreads();
#endif
    tl::mbarrier_wait(barrier, seen);
    if (threadIdx.x == 0) phase = seen ^ 1;
    __syncthreads();
  }
  out[threadIdx.x] = in[threadIdx.x];
}
