// T.copy between global and shared memory by the tensor memory accelerator: one thread asks for a
// box of a tensor, the hardware moves it.
#ifndef TILELANG_OP_COPY_TMA_H_
#define TILELANG_OP_COPY_TMA_H_

#include <string>
#include <vector>

#include "ir/compiled.h"
#include "op/access.h"
#include "op/instruction.h"

namespace tilelang::op {

// cp.async.bulk.tensor from global to shared memory, and the other way. The obstacles are the rules
// of the CUDA driver API, "Tensor Map Object Management", and of the PTX ISA, "Tensors".
const TileInstruction* TmaLoad();
const TileInstruction* TmaStore();

bool IsTmaLoad(const ir::CopyNode* op);  // global to shared
const Region& GlobalSide(const ir::CopyNode* op);
const Region& SharedSide(const ir::CopyNode* op);

// An attribute (bool) of the calls of a store: the option waits_for_writes of the copy.
inline constexpr const char* kWaitsForWrites = "waits_for_writes";
// Attributes of the call that stores one box, whose last arguments are its corner, innermost
// dimension first: the tensor (Buffer) and the box's extents (Array<int>, as the corner). One that
// adds the box has the attribute ir::kAdds, too.
inline constexpr const char* kStoredTensor = "stored_tensor";
inline constexpr const char* kStoredBox = "stored_box";

// Describes how a copy is cut into boxes: counts[d] boxes of extent box[d] cover dimension d of the
// global region. All boxes have one tensor map.
struct TmaBoxes {
  Coord box;  // outermost dimension first, as the tensor
  Coord counts;
  int64_t swizzle = 0;            // bytes; 0: none
  int64_t swizzle_atomicity = 0;  // bytes of the chunks that it moves
  // The bits of elements in padded tiles, or 0 if the buffers have the elements. The box counts
  // elements.
  int64_t padded_bits = 0;
  std::string reason;  // why no boxes write the layout of the shared buffer; empty when they do
};
class TmaPlanNode : public TilePlanNode {
 public:
  TmaBoxes boxes;
  int64_t bytes = 0;  // that a load announces

  using TilePlanNode::TilePlanNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.op.TmaPlan", TmaPlanNode, TilePlanNode);
};
const TmaPlanNode* TmaPlanOf(const ir::TileOpNode* op);

// The tensor maps of a launch.
class TensorMaps {
 public:
  // The map of a global buffer for boxes of a shape; its argument in device functions.
  ir::Var Get(const Buffer& global, const Buffer& flat, const TmaBoxes& boxes);
  const Array<TensorMapInfo>& All() const { return maps_; }
  // The first thread asks for the maps, which else wait for the first copy.
  Stmt Prefetch(const Expr& thread, const Span& span) const;

 private:
  Array<TensorMapInfo> maps_;
  std::vector<Buffer> buffers_;  // of each map, as the user declared it
};

// The boxes of a copy with a plan.
void IssueTma(const ir::CopyNode* op, Lowering* lowering, std::vector<Stmt>* stmts);

}  // namespace tilelang::op

#endif  // TILELANG_OP_COPY_TMA_H_
