// The last round leaves the group of its own copy in flight.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ alignas(16) uint32_t tile[4][128];
  for (int i = 0; i < 4; ++i) {
    if (threadIdx.x < 32)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                       tl::shared_address(&tile[i][4 * threadIdx.x])),
                   "l"(in + i * 128 + 4 * threadIdx.x)
                   : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  for (int i = 0; i < 4; ++i) {
#ifdef FIXED
    asm volatile("cp.async.wait_group 0;" ::: "memory");
#else
    asm volatile("cp.async.wait_group 1;" ::: "memory");
#endif
    __syncthreads();
    out[i * 128 + threadIdx.x] = tile[i][127 - threadIdx.x];
  }
}
