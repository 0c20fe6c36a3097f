// NVIDIA/Fuser#2391, split-K: the threads of a block wrote their part of a sum, and thread 0 released
// the semaphore for the next block after a barrier of the block, without __threadfence.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  uint32_t* semaphore = out + 128;
  if (blockIdx.x > 0) {
    if (threadIdx.x == 0) {
      while (*reinterpret_cast<volatile uint32_t*>(semaphore) != blockIdx.x) {
      }
      __threadfence();
    }
    __syncthreads();
    out[threadIdx.x] += in[blockIdx.x * 128 + threadIdx.x];
  } else {
    out[threadIdx.x] = in[threadIdx.x];
  }
#ifdef FIXED
  __threadfence();
#endif
  __syncthreads();
  if (threadIdx.x == 0) *reinterpret_cast<volatile uint32_t*>(semaphore) = blockIdx.x + 1;
}
