// A block reads the memory of its neighbour after a barrier of its own threads.
extern "C" __global__ void __cluster_dims__(2) k(uint32_t* out, const uint32_t* in) {
  __shared__ uint32_t tile[128];
  uint32_t rank = tl::rank_in_cluster();
  tile[threadIdx.x] = in[rank * 128 + threadIdx.x];
#ifdef FIXED
  tl::sync_cluster();
#else
  __syncthreads();
#endif
  out[rank * 128 + threadIdx.x] = tl::load_remote(tl::in_block(tile, rank ^ 1) + 4 * threadIdx.x);
  tl::sync_cluster();
}
