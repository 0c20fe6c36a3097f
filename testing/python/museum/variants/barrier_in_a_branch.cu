// Half of the threads reach the first barrier, the others only the second one.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ uint32_t a[128], b[128];
  a[threadIdx.x] = in[threadIdx.x];
#ifdef FIXED
  __syncthreads();
#else
  if (threadIdx.x < 64) __syncthreads();
#endif
  b[threadIdx.x] = a[127 - threadIdx.x] + 1;
  __syncthreads();
  out[threadIdx.x] = b[threadIdx.x];
#ifndef FIXED
  if (threadIdx.x >= 64) __syncthreads();
#endif
}
