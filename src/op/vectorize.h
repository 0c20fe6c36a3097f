// Which memory accesses of a loop move several elements at once.
#ifndef TILELANG_OP_VECTORIZE_H_
#define TILELANG_OP_VECTORIZE_H_

#include <vector>

#include "op/parallel.h"
#include "op/ragged.h"

namespace tilelang::op {

// How many consecutive iterations of the last loop variable run as one, at most `limit`: 1, or a
// number for which some access is a vector and no access is a run of elements that may be
// misaligned or longer than 16 bytes. Conditions around accesses have one value in a group of so
// many, or are ragged.
int64_t VectorWidth(const ParallelInfo& info, int64_t limit, Context* ctx);

// Bytes of the longest vector that the loop accesses when it runs by its VectorWidth; 0 if none.
int64_t VectorBytes(const ParallelInfo& info, Context* ctx);

// The buffers in global and shared memory of which every access that follows the last loop
// variable is an aligned vector when `width` iterations run as one.
Array<Buffer> VectorBuffers(const ParallelInfo& info, int64_t width, Context* ctx);

// The comparisons in the body that may hold for a part of a group of `width` iterations.
std::vector<RaggedCondition> RaggedConditions(const ParallelInfo& info, int64_t width,
                                              Context* ctx);

// T.vectorized: the loop over `body`, which is that of `loop` lowered to `buffers`, with its vector
// accesses marked; an unrolled loop when there are none.
Stmt LowerVectorized(const ir::ForNode* loop, const Stmt& body, PhysicalBuffers* buffers,
                     Context* ctx);

}  // namespace tilelang::op

#endif  // TILELANG_OP_VECTORIZE_H_
