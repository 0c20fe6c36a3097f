#ifndef TILELANG_TRANSFORM_OWN_FRAGMENTS_H_
#define TILELANG_TRANSFORM_OWN_FRAGMENTS_H_

#include "ir/function.h"

namespace tilelang::transform {

// Replaces fragments of which threads access only single elements, outside of tile operators and
// parallel loops, by arrays of each thread. Nothing says how such a fragment is spread over
// threads, and programs use it as memory of one thread. A remark names each.
ir::Func OwnFragments(const ir::Func& func);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_OWN_FRAGMENTS_H_
