#include "op/thread_sync.h"

#include "ir/async.h"
#include "target/warp.h"

namespace tilelang::op {

Stmt SyncThreads(const ThreadRange& threads, int64_t cta_threads, const Span& span) {
  if (threads.begin == 0 && threads.count == cta_threads) {
    return ir::Barrier(ir::BarrierKind::kBlock, span);
  }
  if (threads.count <= kWarp) return ir::Barrier(ir::BarrierKind::kWarp, span);
  return ir::Barrier::Of(ir::BarrierKind::kRange, threads.begin, threads.count, span);
}

bool IsWarpgroups(const ThreadRange& threads) {
  return AreWarpgroups(threads) && threads.count > kWarpgroup;
}

Stmt SyncWarpgroups(const ThreadRange& threads, const Span& span) {
  return ir::Barrier::Of(ir::BarrierKind::kWarpgroups, threads.begin, threads.count, span);
}

Stmt SyncThreads(const Context& ctx, const Span& span) {
  return SyncThreads(ctx.threads, ctx.cta_threads, span);
}

}  // namespace tilelang::op
