// Iterations of a loop that overlap within one role: what the tensor core does for one of them runs
// while threads work on the next.
#ifndef TILELANG_SCHEDULE_OVERLAP_H_
#define TILELANG_SCHEDULE_OVERLAP_H_

#include <vector>

#include "schedule/description.h"
#include "schedule/task.h"

namespace tilelang::schedule {

// The loop with the tasks as its body, in order, or, where a gemm by wgmma needs what threads make
// of the result of another one in the same iteration (attention: P V after softmax of Q K), as a
// pipeline of two stages:
//
//   stage 0 of iteration 0
//   for i from 1: issue the gemms of stage 0 of i and of stage 1 of i - 1; the rest of stage 0 of
//                 i, while the latter run; the rest of stage 1 of i - 1
//   stage 1 of the last iteration
//
// Tasks of a stage that share memory keep their order. Where task u of stage 1 and v of stage 0
// share memory, u of iteration i - 1 comes before v of iteration i. Each gemm is waited for where
// something touches its registers or releases its tiles. The program may give another order, and
// any number of stages (schedule/program_order.h).
// Notes which iteration statements are of.
ir::Stmt OverlapIterations(const ir::ForNode* loop, const std::vector<Task>& tasks,
                           IterationNotes* notes);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_OVERLAP_H_
