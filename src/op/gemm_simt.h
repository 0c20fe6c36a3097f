// T.gemm without tensor cores: each thread sums products of its elements of C. For shapes and types
// that no instruction has.
#ifndef TILELANG_OP_GEMM_SIMT_H_
#define TILELANG_OP_GEMM_SIMT_H_

#include "ir/gemm.h"
#include "op/context.h"

namespace tilelang::op {

// Returns whether threads can reach the operands, if fragments are copied to shared memory.
bool CanBeByThreads(const ir::GemmNode* op);
// The gemm as a loop over the elements of C, which sums in C's type.
Stmt GemmByThreads(const ir::GemmNode* op);

}  // namespace tilelang::op

#endif  // TILELANG_OP_GEMM_SIMT_H_
