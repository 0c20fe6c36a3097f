// One thread waits for a flag, and the others read without a barrier.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  uint32_t* flag = out + 256;
  if (blockIdx.x == 0) {
    out[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
  } else {
    if (threadIdx.x == 0) {
      uint32_t v = 0;
      while (!v)
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(flag) : "memory");
    }
#ifdef FIXED
    __syncthreads();
#endif
    out[128 + threadIdx.x] = out[threadIdx.x];
  }
}
