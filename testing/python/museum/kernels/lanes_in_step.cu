// ggml-org/llama.cpp#28475, kokkos/kokkos#6630, JustVugg/colibri#1099: lanes of a warp read shared
// memory that other lanes of it had written, without __syncwarp between the two.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ uint32_t tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
#ifdef FIXED
  __syncwarp();
#endif
  out[threadIdx.x] = tile[threadIdx.x ^ 31];
}
