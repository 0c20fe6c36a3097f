#include "op/thread_sync.h"

#include "op/effect.h"

namespace tilelang::op {

namespace {

// Named barriers are given out from the top, where kernels that number their own begin last.
constexpr int64_t kBarriers = 16;

}  // namespace

Stmt SyncThreads(const Context& ctx, const Span& span) {
  const ThreadRange& t = ctx.threads;
  if (t.begin == 0 && t.count == ctx.cta_threads) return Effect("sync_threads", {}, span);
  if (t.count <= 32) return Effect("sync_warp", {}, span);
  int64_t barrier = kBarriers - 1 - t.begin / 128 % (kBarriers - 1);
  return Effect("sync_threads", {I32(barrier), I32(t.count)}, span);
}

}  // namespace tilelang::op
