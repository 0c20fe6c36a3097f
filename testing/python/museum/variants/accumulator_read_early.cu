// Threads read the accumulator while its group of wgmma is in flight.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ alignas(128) uint32_t a[512], b[64];
  for (int i = threadIdx.x; i < 512; i += 128) a[i] = 0x3C003C00;  // pairs of 1
  if (threadIdx.x < 64) b[threadIdx.x] = 0x3C003C00;
  tl::fence_proxy_async();
  __syncthreads();
  float d[4] = {0, 0, 0, 0};
  tl::wgmma_fence(d);
  tl::wgmma(d, a, b);
  tl::wgmma_commit();
#ifdef FIXED
  tl::wgmma_wait<0>(d);
#else
  tl::wgmma_wait<1>(d);
#endif
  out[threadIdx.x] = __float_as_uint(d[0]);
  tl::wgmma_wait<0>(d);
}
