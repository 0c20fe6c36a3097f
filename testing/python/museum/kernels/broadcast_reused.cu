// warpfront/hipfire#575, RMS norm and rotary embedding: all threads read the sum of squares from
// element 0 of a buffer, which the next stage wrote without a barrier in between. Slow warps took a
// normalised value for the sum.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ uint32_t shared[128];
  shared[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    __syncthreads();
  }
  uint32_t sum = shared[0];
#ifdef FIXED
  __syncthreads();
#endif
  shared[threadIdx.x] = in[threadIdx.x] * sum;
  __syncthreads();
  out[threadIdx.x] = shared[127 - threadIdx.x];
}
