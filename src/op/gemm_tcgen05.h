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

// Returns why tcgen05.mma does not fit the shape, types, threads and annotated layouts of a GEMM
// into a fragment, or an empty string. If it does not fit, the GEMM stays in registers, for
// mma.sync.
std::string Tcgen05Lacks(const ir::GemmNode* op, const ThreadRange& threads,
                         const LayoutMap& annotated, const Target& target);

// Returns why one descriptor cannot walk a slice in shared memory that the GEMM reads, or an empty
// string. Layouts are the annotated ones, or those that the tiles would get.
std::string SliceLacks(const ir::GemmNode* op, const LayoutMap& annotated,
                       arith::Analyzer* analyzer);

// Returns the scope of the copy of an input that the program has in registers, from which an
// instruction reads it. Returns nothing if the instruction reads registers. `result_in_registers`
// is true for instructions whose C is a fragment.
std::optional<std::string> ScopeOfCopy(const ir::GemmOperandNode* input, bool result_in_registers);

// Returns whether all threads wait for the GEMM: it has no barrier of the user's, and it is not
// T.tcgen05_gemm, which the user commits.
bool WaitsItself(const ir::GemmNode* op);

// A GEMM has this annotation (bool) if the compiler's MMA warp issues it. The statements that wait
// for it then say what tensor memory it uses (ir/async.h).
inline constexpr const char* kByMmaWarp = "by_mma_warp";
bool IsByMmaWarp(const ir::GemmNode* op);

// An arrival of kIssuerCommit: the thread that issues for these threads commits what it has issued.
// In kernels of pairs it arrives in both blocks, or by its scope in the leader alone.
Stmt LowerIssuerCommit(const ir::ArriveNode* op, const Context& ctx);

}  // namespace tilelang::op

#endif  // TILELANG_OP_GEMM_TCGEN05_H_
