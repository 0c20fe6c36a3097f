#ifndef TILELANG_LOWER_MASK_RESULTS_H_
#define TILELANG_LOWER_MASK_RESULTS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::lower {

// Adds masks to the results of GEMMs whose accumulators lie in tensor memory. The pass replaces
//
//   for i, j in Parallel: S[i, j] = select(.., 0, -inf)
//   gemm(.., S, clear_accum=False)
//
// by
//
//   gemm(.., S, clear_accum=True)
//   for i, j in Parallel: S[i, j] += select(..)
//
// The sums are the same, because 0 and the infinities are exact. Threads load the result anyway, so
// nothing is stored to tensor memory before the GEMM, and values computed from S may take its
// columns.
ir::Func MaskResults(const ir::Func& func, const Target& target);

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_MASK_RESULTS_H_
