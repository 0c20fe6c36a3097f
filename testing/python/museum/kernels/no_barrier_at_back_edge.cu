// sgl-project/sglang#37289, KDA prefill: each iteration stored the chunk's beta at its top and read
// it near its end. No barrier crossed the back edge, so the next iteration overwrote what a slow
// warp still read.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ uint32_t beta[128];
  for (int chunk = 0; chunk < 3; ++chunk) {
    beta[threadIdx.x] = in[threadIdx.x] + chunk;
    __syncthreads();
    out[chunk * 128 + threadIdx.x] = beta[127 - threadIdx.x];
#ifdef FIXED
    __syncthreads();
#endif
  }
}
