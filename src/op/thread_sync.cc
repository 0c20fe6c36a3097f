#include "op/thread_sync.h"

#include "op/effect.h"
#include "target/warp.h"

namespace tilelang::op {

Stmt SyncThreads(const ThreadRange& threads, int64_t cta_threads, const Span& span) {
  if (threads.begin == 0 && threads.count == cta_threads) return Effect("sync_threads", {}, span);
  if (threads.count <= kWarp) return Effect("sync_warp", {}, span);
  return Effect("sync_range", {I32(threads.begin), I32(threads.count)}, span);
}

bool IsWarpgroups(const ThreadRange& threads) {
  return AreWarpgroups(threads) && threads.count > kWarpgroup;
}

Stmt SyncWarpgroups(const ThreadRange& threads, const Span& span) {
  return Effect(kSyncWarpgroups, {I32(threads.begin), I32(threads.count)}, span);
}

Stmt SyncThreads(const Context& ctx, const Span& span) {
  return SyncThreads(ctx.threads, ctx.cta_threads, span);
}

}  // namespace tilelang::op
