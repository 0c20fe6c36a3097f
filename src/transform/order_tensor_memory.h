// Barriers between groups of threads that use the same tensor memory.
#ifndef TILELANG_TRANSFORM_ORDER_TENSOR_MEMORY_H_
#define TILELANG_TRANSFORM_ORDER_TENSOR_MEMORY_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::transform {

// Tile operators order themselves among the threads that execute them: a copy waits for its own
// warps, a gemm synchronizes its threads before and lets them all wait after. Where one group of
// threads uses columns after another group, one of them writing, all threads around the two
// synchronize in between: in front of the branch that the later operator stands in. Loops are seen
// through, barriers that the program has count. Runs after PlanTensorMemory, so that buffers which
// share columns count.
//
// Statements that use mbarriers of the program are ordered by them: among such statements nothing
// is put, since threads of one may wait for those of another; gemms with mbar= complete when
// the program has waited.
ir::Func OrderTensorMemory(const ir::Func& func, const Target& target);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_ORDER_TENSOR_MEMORY_H_
