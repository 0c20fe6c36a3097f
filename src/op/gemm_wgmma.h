// T.gemm by wgmma (sm_90a): each warpgroup multiplies its part, A in shared memory or a fragment,
// B in shared memory, C in a fragment. An instruction has 64 rows, and columns in steps of 8: tiles
// whose rows are no multiple of 64, but whose columns are, are computed as C^T = B^T A^T.
#ifndef TILELANG_OP_GEMM_WGMMA_H_
#define TILELANG_OP_GEMM_WGMMA_H_

#include "op/access.h"
#include "op/instruction.h"
#include "op/wgmma.h"

namespace tilelang::op {

// wgmma.mma_async.
const TileInstruction* Wgmma();

class WgmmaPlanNode : public TilePlanNode {
 public:
  bool transposed = false;  // what follows is of C^T
  WgmmaKind kind;
  layout::WarpGrid grid;  // of warpgroups
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t width = 0;  // N of one instruction; the last ones may be narrower

  using TilePlanNode::TilePlanNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.op.WgmmaPlan", WgmmaPlanNode, TilePlanNode);
};

// Returns whether a GEMM that wgmma cannot carry out has its size and types, so that a remark is
// useful.
bool IsWgmmaSized(const ir::GemmNode* op, const Context& ctx);

// Returns whether wgmma multiplies the operands as they are stored, in blocks of so many threads.
bool MultipliesByWgmma(const ir::GemmNode* op, int64_t threads);
// Returns whether wgmma computes C^T = B^T A^T for the GEMM, if it can: a pass asks for it, or M is
// no multiple of the instruction's rows.
bool PrefersTransposed(const ir::GemmNode* op);
// Returns whether each of `warpgroups` warpgroups can have a multiple of the instruction's rows.
bool DividesRows(const ir::GemmNode* op, int64_t warpgroups);

// Returns whether the program asks for wgmma by T.wgmma_gemm.
bool MustBeWgmma(const ir::GemmNode* op);
// Returns the GEMM as one that any instruction may carry out, and that waits for its result.
ir::Gemm WithoutGroups(const ir::GemmNode* op);
// Returns how many groups of wgmma may stay in flight after the GEMM. -1 stands for all of them
// (wg_wait=).
int64_t GroupsInFlight(const ir::GemmNode* op);

// The registers of A and C of the gemms, each once.
Array<Buffer> RegistersOf(const std::vector<const ir::GemmNode*>& gemms, Lowering* lowering);
// The registers have their values here, and no use of them moves across.
Stmt HoldRegisters(const Buffer& registers, const Span& span);

}  // namespace tilelang::op

#endif  // TILELANG_OP_GEMM_WGMMA_H_
