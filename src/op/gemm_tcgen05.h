// T.gemm on Blackwell: tcgen05.mma with A in shared (SS) or tensor memory (TS), B in shared
// memory, C in tensor memory.
#ifndef TILELANG_OP_GEMM_TCGEN05_H_
#define TILELANG_OP_GEMM_TCGEN05_H_

#include "op/access.h"
#include "op/copy_tmem_cp.h"

namespace tilelang::op {

// Checks shapes, types and scopes, and gives the operands the layouts the instruction reads.
void InferGemmTcgen05(const ir::GemmNode* op, Context* ctx);

// Whether all threads wait for the gemm: it has no barrier of the user's, nor is it
// T.tcgen05_gemm, which the user commits.
bool WaitsItself(const ir::GemmNode* op);

// T.tcgen05_mma_arrive(mbar): the thread that issues for these threads commits what it has issued.
bool IsTcgen05Arrive(const ir::CallNode* call);
Stmt LowerTcgen05Arrive(const ir::CallNode* call, const Span& span, Context* ctx);

// The instructions, issued by one elected thread, and their commit; then, if the gemm waits
// itself, the wait of all threads for `completion`. `copies` are issued before by the same thread:
// tcgen05.cp is ordered before the tcgen05.mma that follow it.
Stmt LowerGemmTcgen05(const ir::GemmNode* op, const std::vector<const ir::CopyNode*>& copies,
                      PhysicalBuffers* buffers, const Completion& completion, Context* ctx);

}  // namespace tilelang::op

#endif  // TILELANG_OP_GEMM_TCGEN05_H_
