// alicevision/popsift#82: threads cleared a histogram and added to it by atomics, without a barrier
// between the two.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ uint32_t bins[128];
  bins[threadIdx.x] = 0;
#ifdef FIXED
  __syncthreads();
#endif
  atomicAdd(&bins[127 - threadIdx.x], in[threadIdx.x]);
  __syncthreads();
  out[threadIdx.x] = bins[threadIdx.x];
}
