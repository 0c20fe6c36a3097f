// Threads read what a bulk store writes, after it has only read its source.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ alignas(128) uint32_t tile[128];
  tile[threadIdx.x] = in[threadIdx.x] + 1;
  tl::fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    tl::bulk_store(out, tile, 512);
    tl::bulk_commit();
#ifdef FIXED
    tl::bulk_wait();
#else
    tl::bulk_wait_read();
#endif
  }
  __syncthreads();
  uint32_t v;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(out + threadIdx.x) : "memory");
  out[128 + threadIdx.x] = v;
#ifndef FIXED
  __syncthreads();
  if (threadIdx.x == 0) tl::bulk_wait();
#endif
}
