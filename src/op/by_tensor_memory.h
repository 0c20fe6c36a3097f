#ifndef TILELANG_OP_BY_TENSOR_MEMORY_H_
#define TILELANG_OP_BY_TENSOR_MEMORY_H_

namespace tilelang::op {

// A GEMM has this annotation (bool) if its operand A, a shared tile, goes through registers to
// tensor memory, where the GEMM reads it. StageTensorMemory adds the copies.
inline constexpr const char* kByTensorMemory = "by_tensor_memory";

}  // namespace tilelang::op

#endif  // TILELANG_OP_BY_TENSOR_MEMORY_H_
