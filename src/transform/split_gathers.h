#ifndef TILELANG_TRANSFORM_SPLIT_GATHERS_H_
#define TILELANG_TRANSFORM_SPLIT_GATHERS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::transform {

// Replaces copies of several rows of a matrix (T.tma_gather4) by a copy of each row, for targets
// without an instruction for them.
ir::Func SplitGathers(const ir::Func& func, const Target& target);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_SPLIT_GATHERS_H_
