// Pipelined loops whose tiles the threads of the program load ahead themselves, by cp.async.
#ifndef TILELANG_SCHEDULE_ASYNC_COPIES_H_
#define TILELANG_SCHEDULE_ASYNC_COPIES_H_

#include <string>
#include <vector>

#include "schedule/ring.h"

namespace tilelang::schedule {

// A loop of s stages loads tiles s - 1 iterations ahead, into rings of s slots:
//
//   for each of the first s - 1 iterations: its loads, a commit
//   for i: wait for all groups but s - 2 of them; the threads synchronize
//          the loads of i + s - 1, a commit; what else the iteration does, on slot i % s
//
// The one barrier of an iteration says both that its tiles are there, each thread having waited for
// its own copies, and that the slot of the iteration before, which is filled next, is not used any
// more. Iterations that there are not load nothing; their groups are empty, so that the number of
// groups that may be left does not change.
struct AsyncCopies {
  ir::Stmt launch;
  std::vector<Channel> channels;
};

// The launch with its pipelined loops so written where threads copy whole tiles in their bodies;
// remarks say which of them are left in their place, and why. `operands_alone`: tiles that no gemm
// reads stay there, so that what else the loop does can be put in another order.
AsyncCopies OverlapCopies(const ir::KernelLaunchNode* launch, bool operands_alone);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_ASYNC_COPIES_H_
