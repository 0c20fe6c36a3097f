// MoonshotAI/FlashKDA#24 and inclusionAI/cuLA#114: threads wrote a tile, a barrier ordered them
// before the thread that stores it by TMA, but no fence.proxy.async made the writes visible to the
// async proxy.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ alignas(128) uint32_t tile[128];
  tile[threadIdx.x] = in[threadIdx.x] * 3;
#ifdef FIXED
  tl::fence_proxy_async();
#endif
  __syncthreads();
  if (threadIdx.x == 0) {
    tl::bulk_store(out, tile, sizeof(tile));
    tl::bulk_commit();
    tl::bulk_wait();
  }
}
