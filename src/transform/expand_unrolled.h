#ifndef TILELANG_TRANSFORM_EXPAND_UNROLLED_H_
#define TILELANG_TRANSFORM_EXPAND_UNROLLED_H_

#include "ir/function.h"

namespace tilelang::transform {

// Writes out the iterations of T.unroll loops whose variable says which slice of tensor memory or
// of a fragment a tile operator uses: rows and registers of a slice are chosen when compiling.
// Serial loops of at most 64 iterations are written out if a copy between tensor memory and a
// fragment needs it. Each iteration has variables of its own and keeps the places in the source.
// Loops without constant bounds, with an unroll_factor, with a break or continue of their own or
// with allocations of tiles or barriers stay loops. Runs after Simplify, and simplifies again what
// it wrote out.
ir::Func ExpandUnrolled(const ir::Func& func);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_EXPAND_UNROLLED_H_
