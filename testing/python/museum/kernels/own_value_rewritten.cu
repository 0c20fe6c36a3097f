// kokkos/kokkos#4855: after a reduction every lane copied the value of lane 0. Lane 0 wrote its own
// value again, while the other lanes read it.
extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ uint32_t values[128];
  uint32_t lane = threadIdx.x % 32;
  uint32_t* value = values + threadIdx.x;
  *value = in[threadIdx.x];
  __syncwarp();
#ifdef FIXED
  if (lane != 0)
#endif
    *value = *(value - lane);
  __syncwarp();
  out[threadIdx.x] = *value;
}
