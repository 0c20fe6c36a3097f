// NVIDIA/cuCollections#337: a leader reset the counter of its group after the group had flushed its
// buffer, and threads took new places from the counter before the reset was ordered.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ uint32_t count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  uint32_t place = atomicAdd(&count, 1u);
  __syncthreads();
  out[place] = count;
#ifdef FIXED
  __syncthreads();
#endif
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  place = atomicAdd(&count, 1u);
  __syncthreads();
  out[128 + place] = count + in[0];
}
