// ORNL/HeCBench#221, logic-rewrite: lane 0 allocated memory for its warp and published the pointer in
// shared memory. The __syncwarp before the other lanes read it was commented out.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ const uint32_t* pointers[4];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane == 0) pointers[warp] = in + (warp ^ 1) * 32;
#ifdef FIXED
  __syncwarp();
#endif
  const uint32_t* pointer = *static_cast<const uint32_t* volatile*>(&pointers[warp]);
  out[threadIdx.x] = pointer[lane];
}
