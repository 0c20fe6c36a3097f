// A block stores to its neighbour and arrives there by a relaxed operation.
extern "C" __global__ void __cluster_dims__(2) k(uint32_t* out, const uint32_t* in) {
  __shared__ uint32_t tile[128];
  __shared__ uint64_t ready;
  uint32_t rank = tl::rank_in_cluster();
  if (threadIdx.x == 0) tl::mbarrier_init(ready, 128);
  tl::sync_cluster();
  uint32_t there = tl::in_block(tile, rank ^ 1) + 4 * threadIdx.x;
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(there), "r"(in[rank * 128 + threadIdx.x])
               : "memory");
#ifdef FIXED
  tl::mbarrier_arrive(ready, rank ^ 1);
#else
  asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(
                   tl::in_block(&ready, rank ^ 1))
               : "memory");
#endif
  tl::wait_for_cluster(ready, 0);
  out[rank * 128 + threadIdx.x] = tile[threadIdx.x];
  tl::sync_cluster();
}
