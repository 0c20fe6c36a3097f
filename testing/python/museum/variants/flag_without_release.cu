// A block publishes its result by a relaxed store of a flag.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  uint32_t* flag = out + 256;
  if (blockIdx.x == 0) {
    out[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
#ifdef FIXED
      asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
#else
      asm volatile("st.relaxed.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
#endif
    }
  } else {
    if (threadIdx.x == 0) {
      uint32_t v = 0;
      while (!v)
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(flag) : "memory");
    }
    __syncthreads();
    out[128 + threadIdx.x] = out[threadIdx.x];
  }
}
