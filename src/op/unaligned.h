// Vectors that begin at any element: rows of odd length, where layouts give a thread neighbours.
#ifndef TILELANG_OP_UNALIGNED_H_
#define TILELANG_OP_UNALIGNED_H_

#include <vector>

#include "op/parallel.h"
#include "op/ragged.h"

namespace tilelang::op {

// A vector that begins anywhere is loaded as the two aligned ones that it lies in, and stored
// together with those of the neighbouring lanes (tl_templates/cuda/vector.h). So threads load what
// others may be writing, and store what others have: only tensors of which a kernel either reads
// or writes elements are accessed so: those of the body of a launch.
class OneWayTensors {
 public:
  explicit OneWayTensors(const Stmt& launch_body);

  bool Contain(const Buffer& buffer) const;

 private:
  std::vector<Buffer> tensors_;
};

// Whether runs of `width` elements at an access may begin anywhere.
bool MayBeginAnywhere(const Access& access, int64_t width, const ir::ParallelForNode* loop,
                      Context* ctx);

// Where the two vectors that such a load is made of lie in the tensor, as conditions on the loop's
// iterations.
std::vector<RaggedCondition> BoundsOfUnaligned(const Access& access, int64_t width,
                                               const ir::ParallelForNode* loop, Context* ctx);

}  // namespace tilelang::op

#endif  // TILELANG_OP_UNALIGNED_H_
