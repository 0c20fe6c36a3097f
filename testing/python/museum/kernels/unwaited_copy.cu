// facebookexperimental/CUTracer#105: among its racy variants of a pipelined GEMM is one that
// computes with a stage before the wait for the copy that fills it.
#include <tl_templates/cuda/copy_sm80.h>

extern "C" __global__ void k(uint32_t* out, const uint32_t* in) {
  __shared__ alignas(16) uint32_t stage[2][512];
  int first = threadIdx.x * 4;
  tl::cp_async(&stage[0][first], in + first, 16, 16);
  tl::cp_async_commit();
  for (int i = 0; i < 2; ++i) {
    if (i == 0) tl::cp_async(&stage[1][first], in + 512 + first, 16, 16);
    tl::cp_async_commit();
#ifdef FIXED
    tl::cp_async_wait<1>();
    __syncthreads();
#else
    __syncthreads();
#endif
    for (int j = threadIdx.x; j < 512; j += 128) out[i * 512 + j] = stage[i][511 - j];
  }
  tl::cp_async_wait<0>();
}
