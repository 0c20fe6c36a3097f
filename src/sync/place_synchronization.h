// Places waits, barriers and fences between threads of a block, and for engines.
#ifndef TILELANG_SYNC_PLACE_SYNCHRONIZATION_H_
#define TILELANG_SYNC_PLACE_SYNCHRONIZATION_H_

#include "ir/function.h"

namespace tilelang::sync {

// Makes threads synchronize between two accesses that may conflict: accesses of shared memory, by
// threads or asynchronous engines; of tensor memory, by warps or the tensor core; and of the
// elements of a tensor that a block writes and reads, or writes in two places. The launch's
// attrs["ordered_tensors"] lists the tensors that got a barrier; blocks cannot wait for each other.
// Threads also synchronize between the wait for a phase of an mbarrier and the operation that
// begins the next phase (OpenPhases). "fence_proxy_async" stands before the barrier between a
// thread's store and an engine's access of the same bytes. Runs after PlanSharedMemory and
// PlanTensorMemory, so that it sees buffers which share bytes or columns.
//
// Barriers come as late as possible, but not inside a loop that the earlier access is outside of,
// and never where only some threads arrive. Branches that some threads take are ordered from
// outside, and inside by a named barrier when whole warps take them. Raises SemanticsError where
// neither is possible. Barriers of the program count. Code in branches that waits on mbarriers
// orders itself, so nothing is put between two such branches. Other branches of some threads among
// statements that name mbarriers of the program get no barrier for tensor memory either: threads of
// one branch may wait for threads of another.
//
// `between_statements` = false leaves out the barriers that the program can place itself, between
// two accesses of one buffer of its own in shared memory. Barriers for the compiler's scratch
// memory and for buffers that share bytes stay, and so do fences.
ir::Func PlaceSynchronization(const ir::Func& func, bool between_statements = true);

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_PLACE_SYNCHRONIZATION_H_
