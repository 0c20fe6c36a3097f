// Finds the memory accesses of a loop that move several elements at once.
#ifndef TILELANG_OP_VECTORIZE_H_
#define TILELANG_OP_VECTORIZE_H_

#include <vector>

#include "op/parallel.h"
#include "op/ragged.h"

namespace tilelang::op {

// Returns how many consecutive iterations of the last loop variable run as one, at most `limit`.
// The result is 1, or a number for which some access is a vector, and no access is a run of
// elements that may be misaligned or longer than 16 bytes. Of these numbers it is the one with the
// fewest accesses: 16 elements of float8 are a vector, but where they become float16 in a swizzled
// tile, 8 are. Conditions around statements have one value in a group of this size, or are ragged.
// Choices within expressions may also depend on the place in the group, as j % 2 does: what they
// load is no vector.
int64_t VectorWidth(const ParallelInfo& info, int64_t limit, Context* ctx);

// The same of the iterations that a thread has in a layout. Where no vectors are aligned they may
// begin at any element: no reason to choose such a layout, since the elements of neighbouring lanes
// coalesce as well, but where there is one, lanes would not be neighbours by element.
int64_t VectorWidthIn(const ParallelInfo& info, const Fragment& layout, Context* ctx);

// Bytes of the longest vector that the loop accesses when it runs by its VectorWidth; 0 if none.
int64_t VectorBytes(const ParallelInfo& info, Context* ctx);

// The vectors of a loop of which `width` iterations run as one.
struct Vectors {
  // The buffers in global and shared memory of which every access that follows the last loop
  // variable is a vector.
  Array<Buffer> buffers;
  Array<Buffer> unaligned;  // the buffers in which it may begin at any element
  // The comparisons in the body, and bounds of unaligned vectors, that may hold for a part of a
  // group of iterations.
  std::vector<RaggedCondition> ragged;
  // Choices with loads that each iteration of a group makes for itself.
  std::vector<const ir::SelectNode*> choices;
};
Vectors VectorsOf(const ParallelInfo& info, int64_t width, Context* ctx);

// T.vectorized: the loop over `body`, which is that of `loop` lowered to `buffers`, with its vector
// accesses marked; an unrolled loop when there are none.
Stmt LowerVectorized(const ir::ForNode* loop, const Stmt& body, PhysicalBuffers* buffers,
                     Context* ctx);

}  // namespace tilelang::op

#endif  // TILELANG_OP_VECTORIZE_H_
