#ifndef TILELANG_TILING_INLINE_NAMES_H_
#define TILELANG_TILING_INLINE_NAMES_H_

#include "ir/function.h"

namespace tilelang::tiling {

// Replaces the names of integers in launches of plain GEMMs (tiling/plain_gemm.h) by what they
// stand for: `row = by * 128` and then A[row, k * 64] becomes A[by * 128, k * 64]. The passes that
// choose tiles read the place of a tile from its index, and find the same in both spellings. A name
// stays where its value loads memory or calls a function, or where the value would grow large. For
// all targets.
ir::Func InlineNames(const ir::Func& func);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_INLINE_NAMES_H_
