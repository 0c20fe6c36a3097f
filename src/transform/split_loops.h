// Iterations that do more than the others get a loop of their own.
#ifndef TILELANG_TRANSFORM_SPLIT_LOOPS_H_
#define TILELANG_TRANSFORM_SPLIT_LOOPS_H_

#include "ir/function.h"

namespace tilelang::transform {

// Divides a loop with GEMMs, in whose body a branch works on tiles where `var >= bound` (masks on
// the diagonal, ragged tails), into two loops: over the iterations that skip the branch, and over
// the iterations that take it. The former then carry no registers for it and no branch. `bound`
// does not change in the loop; the iterations keep their order. Runs after PipelineLoops, which
// cuts roles out of whole loops.
ir::Func SplitLoops(const ir::Func& func);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_SPLIT_LOOPS_H_
