// Finds whether the values that a tile has at some point are used later.
#ifndef TILELANG_TRANSFORM_DEAD_AFTER_H_
#define TILELANG_TRANSFORM_DEAD_AFTER_H_

#include "ir/tile_op.h"

namespace tilelang::transform {

// Nothing reads, after the first `end` statements of `seq`, what `buffer` holds then: on each way
// on, around loops too, it is overwritten as a whole first or not touched. Sets `later` to a
// statement that may read it.
bool IsDeadAfter(const ir::KernelLaunchNode* launch, const ir::SeqNode* seq, size_t end,
                 const ir::Buffer& buffer, ir::Span* later);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_DEAD_AFTER_H_
