#ifndef TILELANG_SCHEDULE_TAKE_TURNS_H_
#define TILELANG_SCHEDULE_TAKE_TURNS_H_

#include "ir/function.h"

namespace tilelang::schedule {

// Lets warpgroups issue their gemms in turn in loops where they have much to compute between them:
// while one has its softmax, the tensor cores work for the others. For loops that the producer runs
// as well, so that all warpgroups run them equally often. Runs after PipelineLoops and SplitLoops.
ir::Func TakeTurns(const ir::Func& func);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_TAKE_TURNS_H_
