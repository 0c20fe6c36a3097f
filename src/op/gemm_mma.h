// T.gemm by mma.sync: each warp multiplies its part, A in shared memory or a fragment, B in shared
// memory, C in a fragment.
#ifndef TILELANG_OP_GEMM_MMA_H_
#define TILELANG_OP_GEMM_MMA_H_

#include <string>

#include "layout/mma_layout.h"
#include "op/access.h"
#include "op/instruction.h"

namespace tilelang::op {

// mma.sync.
const TileInstruction* MmaSync();

// An instruction for operand and accumulator types: its shape, and the name of its device function
// in mma_sm80.h; no name where there is none.
struct MmaKind {
  layout::MmaAtom atom;
  std::string name;
};
MmaKind ChooseMmaKind(ir::DType a, ir::DType b, ir::DType c, const Target& target);

// Returns why no mma.sync multiplies tiles of these types and shapes, or an empty string.
std::string MmaObstacle(const ir::GemmNode* op, const Context& ctx);

// Says how `warps` warps share an M x N tile. Square makes the parts of C as square as they can be,
// so that the fewest operands are read. FullRow divides rows, and FullCol columns, among as many
// warps as there are atoms.
enum class WarpPolicy { kSquare, kFullRow, kFullCol };
// policy= of the program; nothing where it leaves the choice.
std::optional<WarpPolicy> PolicyOf(const ir::GemmNode* op);
// A gemm has this annotation (bool) if its result becomes A of another in registers, or its A is
// such: without policy= warps share the results by whole rows, if they can.
inline constexpr const char* kChained = "chained";
std::optional<layout::WarpGrid> ChooseWarpGrid(const layout::MmaAtom& atom, int64_t m, int64_t n,
                                               int64_t warps, WarpPolicy policy);

class MmaPlanNode : public TilePlanNode {
 public:
  layout::MmaAtom atom;
  layout::WarpGrid grid;
  std::string function;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;

  using TilePlanNode::TilePlanNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.op.MmaPlan", MmaPlanNode, TilePlanNode);
};

}  // namespace tilelang::op

#endif  // TILELANG_OP_GEMM_MMA_H_
