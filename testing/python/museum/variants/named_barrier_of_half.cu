// Each half of the block synchronises by itself, and reads what the other wrote.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ uint32_t tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
#ifdef FIXED
  tl::sync_threads(1, 128);
#else
  tl::sync_threads(1 + threadIdx.x / 64, 64);
#endif
  out[threadIdx.x] = tile[127 - threadIdx.x];
}
