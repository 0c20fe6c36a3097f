// facebookexperimental/triton#652: a block arrived on the barrier of another block of its cluster,
// which had not initialised it yet. Each block waited for its own threads only.
extern "C" __global__ void __cluster_dims__(2) k(uint32_t* out, const uint32_t* in) {
  __shared__ uint64_t ready;
  uint32_t rank = tl::rank_in_cluster();
  if (threadIdx.x == 0) {
    tl::mbarrier_init(ready, 128);
    tl::fence_barrier_init();
  }
#ifdef FIXED
  tl::sync_cluster();
#else
  __syncthreads();
#endif
  tl::mbarrier_arrive(ready, rank ^ 1);
  tl::mbarrier_wait(ready, 0);
  out[rank * 128 + threadIdx.x] = in[rank * 128 + threadIdx.x];
  tl::sync_cluster();
}
