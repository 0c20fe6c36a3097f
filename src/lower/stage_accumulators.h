#ifndef TILELANG_LOWER_STAGE_ACCUMULATORS_H_
#define TILELANG_LOWER_STAGE_ACCUMULATORS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::lower {

// Gives fragment `c`, the C of gemms, a home in tensor memory. It stays there over the longest
// stretches (whole loops included) in which only gemms touch it; elsewhere it is in registers.
// Gemms with mbar= stay there until the kernel has waited for the mbarrier; raises SemanticError
// when `c` is used before that.
// Copies to and from tensor memory are made by the threads of the gemms, which own `c` (see
// SplitFragments), also where the stretch spans statements of other threads.
// A clear before the first gemm of a stretch becomes that gemm's clear_accum.
// The tile in tensor memory has the columns that instructions compute, which may be more than those
// of `c` (lower/pad_operands.h).
ir::Stmt StageAccumulator(const ir::Stmt& body, const ir::Buffer& c, const Target& target);

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_STAGE_ACCUMULATORS_H_
