// Vectors that begin at any element: rows of odd length, where layouts give a thread neighbours.
#ifndef TILELANG_OP_UNALIGNED_H_
#define TILELANG_OP_UNALIGNED_H_

#include <vector>

#include "op/parallel.h"
#include "op/ragged.h"

namespace tilelang::op {

// Finds the tensors whose vectors may begin anywhere. Such a vector is loaded as the two aligned
// vectors that it lies in, and stored together with vectors of the neighbouring lanes
// (tl_templates/cuda/vector.h). Threads then load elements that other threads may write, and store
// elements of other threads. So a tensor qualifies only if the body of the launch either reads or
// writes its elements.
class OneWayTensors {
 public:
  explicit OneWayTensors(const Stmt& launch_body);

  bool Contain(const Buffer& buffer) const;

 private:
  std::vector<Buffer> tensors_;
};

// Returns whether runs of `width` elements at an access may begin anywhere.
bool MayBeginAnywhere(const Access& access, int64_t width, const ir::ParallelForNode* loop,
                      Context* ctx);

// Returns the bounds in the tensor of the two vectors of such a load, as conditions on the loop's
// iterations.
std::vector<RaggedCondition> BoundsOfUnaligned(const Access& access, int64_t width,
                                               const ir::ParallelForNode* loop, Context* ctx);

}  // namespace tilelang::op

#endif  // TILELANG_OP_UNALIGNED_H_
