#ifndef TILELANG_LOWER_MASK_RESULTS_H_
#define TILELANG_LOWER_MASK_RESULTS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::lower {

// Where accumulators lie in tensor memory, a mask is added to the result of a gemm:
//
//   for i, j in Parallel: S[i, j] = select(.., 0, -inf)      gemm(.., S, clear_accum=True)
//   gemm(.., S, clear_accum=False)                           for i, j in Parallel: S[i, j] +=
//   select(..)
//
// The sums are the same: 0 and the infinities are exact. Threads load the result anyway, so nothing
// is stored to tensor memory before the gemm, and what is computed from S may take its columns.
ir::Func MaskResults(const ir::Func& func, const Target& target);

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_MASK_RESULTS_H_
