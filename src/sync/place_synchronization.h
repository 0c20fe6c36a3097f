// Waits, barriers and fences between threads of a block, and for engines.
#ifndef TILELANG_SYNC_PLACE_SYNCHRONIZATION_H_
#define TILELANG_SYNC_PLACE_SYNCHRONIZATION_H_

#include "ir/function.h"

namespace tilelang::sync {

// Threads synchronize between two accesses that may conflict: of shared memory, by threads or
// asynchronous engines; of tensor memory, by warps or the tensor core; of the elements of a tensor
// that a block writes and reads, or writes in two places (the launch's attrs["ordered_tensors"]
// lists those that got a barrier; blocks cannot wait for each other). They synchronize between the
// wait for a phase of an mbarrier and what begins the next (OpenPhases). "fence_proxy_async" stands
// before the barrier between a thread's store and an engine's access of the same bytes. Runs after
// PlanSharedMemory and PlanTensorMemory, so that buffers which share bytes or columns are seen.
//
// Barriers come as late as possible, but not inside a loop that the earlier access is outside of,
// and never where only some threads arrive: branches that some threads take are ordered from
// outside, and inside by a named barrier when whole warps take them. SemanticsError where neither
// is possible. Barriers that the program has count. Code in branches that waits on mbarriers
// orders itself; nothing is put between two such branches. Nor do other branches of some threads
// among statements that name mbarriers of the program get one for tensor memory: threads of one may
// wait for those of another.
// between_statements: false leaves out the barriers that the program can place itself, between two
// accesses of one buffer of its own in shared memory. Barriers for the compiler's scratch memory
// and for buffers that share bytes stay, and so do fences.
ir::Func PlaceSynchronization(const ir::Func& func, bool between_statements = true);

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_PLACE_SYNCHRONIZATION_H_
