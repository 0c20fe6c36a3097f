// Barriers between threads that touch the same shared memory.
#ifndef TILELANG_TRANSFORM_INSERT_SYNC_H_
#define TILELANG_TRANSFORM_INSERT_SYNC_H_

#include "ir/function.h"

namespace tilelang::transform {

// Puts "sync_threads" wherever one thread may touch bytes of shared memory that another thread
// touched since the last barrier, one of them writing; where threads use what an asynchronous
// engine touched and only other threads have waited for it; and "fence_proxy_async" before the
// barrier that lies between a thread's store and an engine's access of the same bytes. Runs after
// PlanSharedMemory, so that buffers which share bytes are seen.
//
// Barriers come as late as possible, but not inside a loop that the earlier access is outside of,
// and never where only some threads arrive: branches that some threads take are ordered from
// outside, and inside by a named barrier when whole warps take them. SemanticsError where neither
// is possible. Barriers that the program has count. Code in branches that waits on mbarriers
// orders itself; nothing is put between two such branches.
//
// The same holds for elements of a tensor that a block writes and reads, or writes in two places;
// the launch's attrs["ordered_tensors"] lists those that got a barrier. Blocks cannot wait for each
// other.
// between_statements: false leaves out the barriers that the program can place itself, between two
// accesses of one buffer of its own; those of the compiler's scratch memory and between buffers
// that share bytes stay, and so do fences.
ir::Func InsertSync(const ir::Func& func, bool between_statements = true);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_INSERT_SYNC_H_
