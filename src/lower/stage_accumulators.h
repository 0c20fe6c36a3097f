#ifndef TILELANG_LOWER_STAGE_ACCUMULATORS_H_
#define TILELANG_LOWER_STAGE_ACCUMULATORS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::lower {

// Gives fragment `c`, the C of GEMMs, a home in tensor memory. It stays there over the longest
// stretches (whole loops included) in which only GEMMs touch it; elsewhere it is in registers.
// GEMMs with mbar= stay there until the kernel has waited for the mbarrier; raises SemanticError
// when `c` is used before that. The threads of the GEMMs, which own `c` (see SplitFragments), copy
// it to and from tensor memory, also where the stretch spans statements of other threads. A clear
// before the first GEMM of a stretch becomes that GEMM's clear_accum. The tile in tensor memory has
// the columns that instructions compute, which may be more columns than `c` has
// (lower/pad_operands.h).
ir::Stmt StageAccumulator(const ir::Stmt& body, const ir::Buffer& c, const Target& target);

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_STAGE_ACCUMULATORS_H_
