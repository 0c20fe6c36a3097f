// NVIDIA/TransformerEngine#3417, quantization kernels: bulk groups belong to the thread that issued
// the stores. The leader waited until the tile had been read, but nobody told the other threads,
// which filled it again.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ alignas(128) uint32_t tile[128];
  for (int i = 0; i < 3; ++i) {
    tile[threadIdx.x] = in[threadIdx.x] + i;
    tl::fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
      tl::bulk_store(out + i * 128, tile, sizeof(tile));
      tl::bulk_commit();
      tl::bulk_wait_read();
    }
#ifdef FIXED
    __syncthreads();
#endif
  }
  if (threadIdx.x == 0) tl::bulk_wait();
}
