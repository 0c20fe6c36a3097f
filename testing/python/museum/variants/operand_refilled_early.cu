// Threads overwrite an operand that the wgmma of this round still reads.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ alignas(128) uint32_t a[512], b[64];
  for (int i = threadIdx.x; i < 512; i += 128) a[i] = 0x3C003C00;  // pairs of 1
  if (threadIdx.x < 64) b[threadIdx.x] = 0x3C003C00;
  tl::fence_proxy_async();
  __syncthreads();
  float d[4] = {0, 0, 0, 0};
  for (int i = 0; i < 2; ++i) {
    tl::wgmma_fence(d);
    tl::wgmma(d, a, b);
    tl::wgmma_commit();
#ifdef FIXED
    tl::wgmma_wait<0>(d);
#else
    tl::wgmma_wait<1>(d);
#endif
    __syncthreads();
    if (threadIdx.x < 64) b[threadIdx.x] = 0x3C003C00;
    tl::fence_proxy_async();
    __syncthreads();
  }
  tl::wgmma_wait<0>(d);
  out[threadIdx.x] = __float_as_uint(d[0]);
}
