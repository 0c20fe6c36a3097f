// apache/tvm#20074, TIRx: a view of the barrier of another block arrived on its mapped address by the
// instruction for barriers of the own block.
extern "C" __global__ void __cluster_dims__(2) k(uint32_t* out, const uint32_t* in) {
  __shared__ uint64_t ready;
  uint32_t rank = tl::rank_in_cluster();
  if (threadIdx.x == 0) tl::mbarrier_init(ready, 128);
  tl::sync_cluster();
#ifdef FIXED
  tl::mbarrier_arrive(ready, rank ^ 1);
#else
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(tl::in_block(&ready, rank ^ 1))
               : "memory");
#endif
  tl::mbarrier_wait(ready, 0);
  out[rank * 128 + threadIdx.x] = in[rank * 128 + threadIdx.x];
  tl::sync_cluster();
}
