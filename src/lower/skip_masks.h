#ifndef TILELANG_LOWER_SKIP_MASKS_H_
#define TILELANG_LOWER_SKIP_MASKS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::lower {

// A mask in a pipelined loop with gemms, which most iterations do not need:
//
//   for k in Pipelined(..):                             for k in Pipelined(..):
//     gemm(.., S)                                         gemm(.., S)
//     for i, j in Parallel(M, N):                         if k >= bound:
//       S[i, j] = select(x + i >= k * N + j,                for i, j in Parallel(M, N):
//                        S[i, j], -inf)                       S[i, j] = select(..)
//
// The loop changes nothing in the iterations in which the condition is true for all of its
// elements. Conditions compare linear expressions, and the largest k for which the tightest element
// passes is known; SplitLoops then makes two loops of it. A window (`& x + i < k * N + j + reach`)
// masks the first iterations as well, which get a branch of their own before that one
// (`if k < first`). Masks that are added (`S += select(..,
// 0, -inf)`, see MaskResults) are skipped in the same way. On targets with tensor memory, where the
// threads' work is what such loops wait for; other targets keep the mask in every iteration.
ir::Func SkipMasks(const ir::Func& func, const Target& target);

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_SKIP_MASKS_H_
