#ifndef TILELANG_TRANSFORM_SELECT_TMA_H_
#define TILELANG_TRANSFORM_SELECT_TMA_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::transform {

// Marks the copies between global and shared memory that the tensor memory accelerator does (see
// op/copy_tma.h) on targets that have it, where control flow and the other uses of the two buffers
// allow. A remark of topic "copy" says why or why not.
ir::Func SelectTma(const ir::Func& func, const Target& target);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_SELECT_TMA_H_
