#ifndef TILELANG_OP_THREAD_SYNC_H_
#define TILELANG_OP_THREAD_SYNC_H_

#include "op/context.h"

namespace tilelang::op {

// A barrier of these threads: __syncthreads() for a whole CTA, __syncwarp() for a warp, else a
// named barrier, "sync_range"(first, count), which NumberBarriers gives its number.
Stmt SyncThreads(const ThreadRange& threads, int64_t cta_threads, const Span& span);
// Several whole warpgroups.
bool IsWarpgroups(const ThreadRange& threads);
// Each of these warpgroups waits for its own threads: a call of this name, which NumberBarriers
// gives numbers that follow each other.
inline constexpr const char* kSyncWarpgroups = "sync_warpgroups";
Stmt SyncWarpgroups(const ThreadRange& threads, const Span& span);
// Of the threads that execute the operator.
Stmt SyncThreads(const Context& ctx, const Span& span);
// The call that stands for it before operators are lowered.
inline constexpr const char* kSyncRole = "sync_role";

}  // namespace tilelang::op

#endif  // TILELANG_OP_THREAD_SYNC_H_
