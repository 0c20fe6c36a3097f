// T.copy between global and shared memory by the tensor memory accelerator: one thread asks for a
// box of a tensor, the hardware moves it.
#ifndef TILELANG_OP_COPY_TMA_H_
#define TILELANG_OP_COPY_TMA_H_

#include <string>
#include <vector>

#include "codegen/compiled.h"
#include "op/access.h"
#include "op/issue.h"

namespace tilelang::op {

// A copy that was chosen for the accelerator has this annotation (bool), ..
inline constexpr const char* kTmaAnnotation = "tma";
// .. and this one, if what it stores must be in global memory before the threads go on, and not
// only out of shared memory.
inline constexpr const char* kTmaWrittenAnnotation = "tma_written";
bool IsTmaCopy(const ir::CopyNode* op);
bool IsTmaLoad(const ir::CopyNode* op);  // global to shared

// One side in global, the other in shared memory.
bool MovesGlobalShared(const ir::CopyNode* op);
const Region& GlobalSide(const ir::CopyNode* op);
const Region& SharedSide(const ir::CopyNode* op);

// Why the accelerator cannot, or should not, do the copy, as far as its two regions tell; empty
// when it can. Rules: CUDA driver API, "Tensor Map Object Management"; PTX ISA, "Tensors".
std::string TmaObstacle(const ir::CopyNode* op, Context* ctx);

// How a copy is cut into boxes: dimension d of the global region is covered by counts[d] boxes of
// extent box[d]. All boxes have one tensor map.
struct TmaBoxes {
  Coord box;  // outermost dimension first, as the tensor
  Coord counts;
  int64_t swizzle = 0;            // bytes; 0: none
  int64_t swizzle_atomicity = 0;  // bytes of the chunks that it moves
  std::string reason;  // why no boxes write the layout of the shared buffer; empty when they do
};
TmaBoxes CutIntoBoxes(const ir::CopyNode* op, Context* ctx);
// The same if the shared buffer had this layout; none: row-major.
TmaBoxes CutIntoBoxes(const ir::CopyNode* op, const std::optional<Layout>& layout, Context* ctx);

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

// The copies of stmts[first..] that can be issued together: loads, or stores, of which none
// depends on another.
std::vector<const ir::CopyNode*> TmaGroup(const Array<Stmt>& stmts, size_t first);

// Issues a group and waits for it. Loads complete on `completion`; every thread waits. Stores are
// waited for by the thread that issues them.
Stmt LowerTmaGroup(const std::vector<const ir::CopyNode*>& group, const Completion& completion,
                   TensorMaps* maps, PhysicalBuffers* buffers, AccessLowerer* scalar, Context* ctx);

}  // namespace tilelang::op

#endif  // TILELANG_OP_COPY_TMA_H_
