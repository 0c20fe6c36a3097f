// T.copy from shared to tensor memory by tcgen05.cp: one thread asks, the tensor core's pipe moves.
#ifndef TILELANG_OP_COPY_TMEM_CP_H_
#define TILELANG_OP_COPY_TMEM_CP_H_

#include <string>

#include "layout/tmem_cp.h"
#include "op/access.h"
#include "op/instruction.h"

namespace tilelang::op {

// tcgen05.cp.
const TileInstruction* Tcgen05Cp();

// Copies of tiles from shared to tensor memory, whatever carries them out.
bool MovesSharedToTmem(const ir::CopyNode* op);

// Returns why tcgen05.cp cannot do the copy, as far as its two regions tell. Returns an empty
// string if it can when the layouts fit.
std::string TmemCpObstacle(const ir::CopyNode* op);

class TmemCpPlanNode : public TilePlanNode {
 public:
  layout::TmemCpPlan cp;

  using TilePlanNode::TilePlanNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.op.TmemCpPlan", TmemCpPlanNode, TilePlanNode);
};

}  // namespace tilelang::op

#endif  // TILELANG_OP_COPY_TMEM_CP_H_
