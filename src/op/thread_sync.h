#ifndef TILELANG_OP_THREAD_SYNC_H_
#define TILELANG_OP_THREAD_SYNC_H_

#include <optional>

#include "ir/async.h"
#include "op/context.h"

namespace tilelang::op {

// A barrier of these threads: of the whole CTA, of a warp, or else of a range.
Stmt SyncThreads(const ThreadRange& threads, int64_t cta_threads, const Span& span);
// Several whole warpgroups.
bool IsWarpgroups(const ThreadRange& threads);
// Each of these warpgroups waits for its own threads.
Stmt SyncWarpgroups(const ThreadRange& threads, const Span& span);
// Makes a barrier of the threads that execute the operator.
Stmt SyncThreads(const Context& ctx, const Span& span);
// Returns the threads that a barrier brings together. Returns nothing if it brings together the
// threads of each warp or warpgroup, or some threads of the CTA that its number does not tell.
std::optional<ThreadRange> ThreadsMeetingAt(const ir::BarrierNode* barrier, int64_t cta_threads);

}  // namespace tilelang::op

#endif  // TILELANG_OP_THREAD_SYNC_H_
