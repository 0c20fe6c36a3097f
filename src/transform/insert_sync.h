// Barriers between threads that touch the same shared memory.
#ifndef TILELANG_TRANSFORM_INSERT_SYNC_H_
#define TILELANG_TRANSFORM_INSERT_SYNC_H_

#include "ir/function.h"

namespace tilelang::transform {

// Puts "sync_threads" wherever one thread may touch bytes of shared memory that another thread
// touched since the last barrier, one of them writing, and "fence_proxy_async" before the barrier
// that lies between a thread's store and an asynchronous access of the same bytes. Runs after
// PlanSharedMemory, so that buffers which share bytes are seen.
//
// Barriers come as late as possible, but not inside a loop that the earlier access is outside of,
// and never where only some threads arrive: branches that some threads take are ordered from
// outside, and inside by a named barrier when whole warps take them. SemanticsError where neither
// is possible. Barriers that the program has count. Code in branches that waits on mbarriers
// orders itself; nothing is put between two such branches.
//
// Global memory is not looked at: blocks cannot wait for each other, and a kernel that
// communicates through global memory inside a block needs T.sync_threads of its own.
ir::Func InsertSync(const ir::Func& func);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_INSERT_SYNC_H_
