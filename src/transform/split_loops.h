// Iterations that do more than the others get a loop of their own.
#ifndef TILELANG_TRANSFORM_SPLIT_LOOPS_H_
#define TILELANG_TRANSFORM_SPLIT_LOOPS_H_

#include "ir/function.h"

namespace tilelang::transform {

// A loop with gemms, in whose body a branch works on tiles where `var >= bound` (masks on the
// diagonal, ragged tails), becomes two: over the iterations that skip it, and over those that take
// it. So the former carry no registers for it and no branch. `bound` does not change in the loop;
// the iterations keep their order. Runs after PipelineLoops, which cuts roles out of whole loops.
ir::Func SplitLoops(const ir::Func& func);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_SPLIT_LOOPS_H_
