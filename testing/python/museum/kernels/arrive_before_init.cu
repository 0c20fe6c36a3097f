// NVIDIA/Fuser#1769: threads arrived on an mbarrier that another thread of their block had
// initialised, without a barrier of the block between the two.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ uint32_t tile[128];
  __shared__ uint64_t ready;
  if (threadIdx.x == 0) tl::mbarrier_init(ready, 128);
#ifdef FIXED
  __syncthreads();
#endif
  tile[threadIdx.x] = in[threadIdx.x];
  tl::mbarrier_arrive(ready);
  tl::mbarrier_wait(ready, 0);
  out[threadIdx.x] = tile[127 - threadIdx.x];
}
