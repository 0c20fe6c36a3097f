#include "op/thread_sync.h"

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

std::optional<ThreadRange> ThreadsMeetingAt(const ir::BarrierNode* barrier, int64_t cta_threads) {
  ThreadRange all{0, cta_threads};
  switch (barrier->Kind()) {
    case ir::BarrierKind::kWarp:
    case ir::BarrierKind::kWarpgroups:
      return std::nullopt;
    case ir::BarrierKind::kRange:
      return ThreadRange{barrier->threads[0], barrier->threads[1]};
    case ir::BarrierKind::kNamed:
      return ir::AsInt(barrier->count) == cta_threads ? std::optional(all) : std::nullopt;
    default:
      return all;
  }
}

}  // namespace tilelang::op
