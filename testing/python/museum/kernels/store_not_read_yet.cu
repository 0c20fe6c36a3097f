// NVIDIA/Fuser#5448: a loop stored its tile by TMA and filled it again in the next iteration. Only
// the end of the kernel waited for the stores.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ alignas(128) uint32_t tile[128];
  for (int i = 0; i < 3; ++i) {
    tile[threadIdx.x] = in[threadIdx.x] + i;
    tl::fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
      tl::bulk_store(out + i * 128, tile, sizeof(tile));
      tl::bulk_commit();
#ifdef FIXED
      tl::bulk_wait_read();
#endif
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) tl::bulk_wait();
}
