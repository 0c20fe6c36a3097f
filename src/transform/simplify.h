#ifndef TILELANG_TRANSFORM_SIMPLIFY_H_
#define TILELANG_TRANSFORM_SIMPLIFY_H_

#include "ir/function.h"

namespace tilelang::transform {

// Simplifies every expression with the ranges of loop, block and thread variables and the
// conditions in scope; takes away branches that are never taken, loops that never run,
// statements after break and continue, variables and private buffers that nothing uses; loops of
// one iteration become their body. At any stage.
ir::Func Simplify(const ir::Func& func);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_SIMPLIFY_H_
