// T.gemm on Blackwell: tcgen05.mma with A in shared (SS) or tensor memory (TS), B in shared
// memory, C in tensor memory.
#ifndef TILELANG_OP_GEMM_TCGEN05_H_
#define TILELANG_OP_GEMM_TCGEN05_H_

#include "op/access.h"
#include "op/context.h"
#include "op/issue.h"

namespace tilelang::op {

// Checks shapes, types and scopes, and gives the operands the layouts the instruction reads.
void InferGemmTcgen05(const ir::GemmNode* op, Context* ctx);

// The instructions, issued by one elected thread, and their commit. Without a barrier of the
// user's, all threads then wait for `completion`.
Stmt LowerGemmTcgen05(const ir::GemmNode* op, PhysicalBuffers* buffers,
                      const Completion& completion, Context* ctx);

}  // namespace tilelang::op

#endif  // TILELANG_OP_GEMM_TCGEN05_H_
