// inclusionAI/humming#53: a block multicast a tile to its cluster before the receiver had set up
// the mbarrier of that tile.
extern "C" __global__ void __cluster_dims__(2) k(uint32_t* out, const uint32_t* in) {
  __shared__ alignas(128) uint32_t tile[128];
  __shared__ uint64_t full;
  uint32_t rank = tl::rank_in_cluster();
  if (threadIdx.x == 0) {
    tl::mbarrier_init(full, 1);
    tl::fence_barrier_init();
    tl::mbarrier_arrive_expect_tx(full, sizeof(tile));
  }
#ifdef FIXED
  tl::sync_cluster();
#else
  __syncthreads();
#endif
  if (rank == 0 && threadIdx.x == 0) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1], %2, [%3], %4;" ::"r"(tl::shared_address(tile)),
        "l"(in), "r"(512), "r"(tl::shared_address(&full)), "h"(uint16_t{3})
        : "memory");
  }
  tl::mbarrier_wait(full, 0);
  out[rank * 128 + threadIdx.x] = tile[threadIdx.x];
  tl::sync_cluster();
}
