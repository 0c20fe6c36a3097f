// sgl-project/sglang#32954, facebookexperimental/triton#1105, triton-lang/triton#11730: a block of
// a cluster ended while another one still read its shared memory.
extern "C" __global__ void __cluster_dims__(2) k(uint32_t* out, const uint32_t* in) {
  __shared__ uint32_t tile[128];
  uint32_t rank = tl::rank_in_cluster();
  tile[threadIdx.x] = in[rank * 128 + threadIdx.x];
  tl::sync_cluster();
  out[rank * 128 + threadIdx.x] = tl::load_remote(tl::in_block(&tile[threadIdx.x], rank ^ 1));
#ifdef FIXED
  tl::sync_cluster();
#endif
}
