// Iterations of a loop that would change nothing if they ran.
#ifndef TILELANG_TILING_IDLE_ITERATIONS_H_
#define TILELANG_TILING_IDLE_ITERATIONS_H_

#include "ir/function.h"
#include "ir/stmt.h"

namespace tilelang::tiling {

// Returns whether the iterations after the last one of a loop, whose number grows with the index of
// the block, would leave all that the program goes on with as it is: as in causal attention, where
// a block of queries has seen all of its keys. Later keys are masked, so that their scores are
// minus infinity, their weights zero, and the greatest score and the sums what they were.
//
// Takes what the loop loads for finite, and what its iterations have computed: a row of which all
// scores were masked has no number as its result either way. Returns false if a block may have no
// iteration: its rows may have a number then.
bool IdlesAfterEnd(const ir::Func& func, const ir::KernelLaunchNode* launch,
                   const ir::ForNode* loop, const ir::Var& block);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_IDLE_ITERATIONS_H_
