// ORNL/HeCBench#254, marchingCubes: one thread wrote the sum of a block, and all threads read it
// without a barrier.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ uint32_t parts[128];
  __shared__ uint32_t sum;
  parts[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) {
    uint32_t total = 0;
    for (int i = 0; i < 128; ++i) total += parts[i];
    sum = total;
  }
#ifdef FIXED
  __syncthreads();
#endif
  out[threadIdx.x] = in[threadIdx.x] * *static_cast<volatile uint32_t*>(&sum);
}
