// T.gemm on Blackwell: tcgen05.mma with A in shared (SS) or tensor memory (TS), B in shared
// memory, C in tensor memory.
#ifndef TILELANG_OP_GEMM_TCGEN05_H_
#define TILELANG_OP_GEMM_TCGEN05_H_

#include "op/access.h"
#include "op/gemm_umma.h"
#include "op/instruction.h"

namespace tilelang::op {

// tcgen05.mma.
const TileInstruction* Tcgen05Mma();

class UmmaPlanNode : public TilePlanNode {
 public:
  UmmaProblem problem;
  UmmaTiling tiling;

  using TilePlanNode::TilePlanNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.op.UmmaPlan", UmmaPlanNode, TilePlanNode);
};

// N of a gemm into a fragment, rounded up to the columns that tcgen05.mma can compute.
int64_t WholeColumns(const ir::GemmNode* op, const Target& target);
// These columns where the tile of B has as many (lower/pad_operands.h); N elsewhere.
int64_t ColumnsWithRoom(const ir::GemmNode* op, const Target& target);

// Why tcgen05.mma is no instruction for the shape, types, threads and annotated layouts of a gemm
// into a fragment, which then stays in registers, for mma.sync; empty when it is.
std::string Tcgen05Lacks(const ir::GemmNode* op, const ThreadRange& threads,
                         const LayoutMap& annotated, const Target& target);

// Where an instruction reads an input that the program has in registers: the scope of a copy of it;
// nothing: in registers. result_in_registers: of instructions whose C is a fragment.
std::optional<std::string> ScopeOfCopy(const ir::GemmOperandNode* input, bool result_in_registers);

// Whether all threads wait for the gemm: it has no barrier of the user's, nor is it
// T.tcgen05_gemm, which the user commits.
bool WaitsItself(const ir::GemmNode* op);

// A gemm has this annotation (bool) if the compiler's MMA warp issues it: those who wait for it say
// what tensor memory it uses (ir/async.h).
inline constexpr const char* kByMmaWarp = "by_mma_warp";
bool IsByMmaWarp(const ir::GemmNode* op);

// An arrival of kIssuerCommit: the thread that issues for these threads commits what it has issued.
// In kernels of pairs it arrives in both blocks, or by its scope in the leader alone.
Stmt LowerIssuerCommit(const ir::ArriveNode* op, const Context& ctx);

}  // namespace tilelang::op

#endif  // TILELANG_OP_GEMM_TCGEN05_H_
