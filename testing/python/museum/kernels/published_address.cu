// mlc-ai/TIRx-kernels#7, NVFP4 GEMM: tcgen05.alloc writes the address of tensor memory to shared
// memory by a weak store. The only barrier came before it, so the epilogue read the address
// without order.
#include <tl_templates/cuda/tcgen_05.h>

extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ uint32_t slot;
  bool allocates = threadIdx.x < 32;
#ifdef FIXED
  if (allocates) tl::tcgen05_alloc(&slot, 32);
  __syncthreads();
#else
  __syncthreads();
  if (allocates) tl::tcgen05_alloc(&slot, 32);
#endif
  uint32_t base = slot;
  out[threadIdx.x] = in[threadIdx.x] + base;
  __syncthreads();
  if (allocates) tl::tcgen05_dealloc(slot, 32);
}
