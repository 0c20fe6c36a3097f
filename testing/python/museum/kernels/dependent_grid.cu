// Dao-AILab/flash-attention#2498, NVIDIA/cutlass#2760, lightseekorg/tokenspeed#1000: a kernel that
// may start before the one before it has ended read its results without griddepcontrol.wait.
extern "C" __global__ void before(uint32_t* out, const uint32_t* in) {
  asm volatile("griddepcontrol.launch_dependents;");
  out[threadIdx.x] = in[threadIdx.x] + 1;
}

extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
#ifdef FIXED
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  out[threadIdx.x] = in[threadIdx.x] * 2;
}
