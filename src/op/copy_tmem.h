// T.copy between a fragment and tensor memory: tcgen05.ld and tcgen05.st.
#ifndef TILELANG_OP_COPY_TMEM_H_
#define TILELANG_OP_COPY_TMEM_H_

#include "layout/tmem_copy.h"
#include "op/access.h"
#include "op/instruction.h"

namespace tilelang::op {

// tcgen05.ld and tcgen05.st.
const TileInstruction* TmemLoad();
const TileInstruction* TmemStore();

class TmemLdStPlanNode : public TilePlanNode {
 public:
  layout::TmemCopyPlan copy;

  TmemLdStPlanNode(const TileInstruction* instruction, ThreadRange threads,
                   layout::TmemCopyPlan copy)
      : TilePlanNode(instruction, threads), copy(std::move(copy)) {}
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.op.TmemLdStPlan", TmemLdStPlanNode, TilePlanNode);
};

// A copy has the option rows_of_warpgroups if each warpgroup must move the 128 rows
// that its number says: others may be in use by the tensor core.

// Returns whether the copy moves registers to or from tensor memory.
bool IsTmemCopy(const ir::CopyNode* op);

// A copy to or from tensor memory by way of a fragment of the tile's dtype: both halves are copies.
Stmt ThroughFragment(const ir::CopyNode* op);

}  // namespace tilelang::op

#endif  // TILELANG_OP_COPY_TMEM_H_
