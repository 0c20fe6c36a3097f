#include "order/operation.h"

#include <cstdlib>
#include <string>
#include <unordered_map>

#include "ir/intrinsics.h"
#include "ir/visitor.h"

namespace tilelang::order {

namespace {

using enum OperationKind;

// Intrinsics, and device functions without tl:: and template arguments.
const std::unordered_map<std::string_view, OperationKind>& Table() {
  static const std::unordered_map<std::string_view, OperationKind> table = {
      {"sync_threads", kBarrier},
      {"sync_range", kBarrier},
      {"syncthreads_or", kBarrier},
      {"syncthreads_and", kBarrier},
      {"syncthreads_count", kBarrier},
      {"sync_grid", kBarrier},
      {"clc_ask", kTmaLoad},
      {"clc_try_cancel", kUnsupported},
      {"clc_try_cancel_multicast", kUnsupported},
      {"sync_warp", kWarpBarrier},
      {"named_barrier_arrive", kUnsupported},
      {"cluster_sync", kUnsupported},
      {"cluster_arrive", kUnsupported},
      {"cluster_arrive_relaxed", kUnsupported},
      {"cluster_wait", kUnsupported},
      {"store_to_block", kUnsupported},
      {"elect_one", kElect},
      {"mbarrier_init", kInit},
      {"fence_barrier_init", kInitFence},
      {"mbarrier_arrive", kArrive},
      {"mbarrier_expect_tx", kExpect},
      {"mbarrier_arrive_expect_tx", kArriveExpect},
      {"mbarrier_wait_parity", kWaitPhase},
      {"mbarrier_try_wait", kUnsupported},
      {"mbarrier_inval", kUnsupported},
      {"fence_proxy_async", kProxyFence},
      {"cp_async", kCopyAsync},
      {"cp_async_ordered", kCopyAsync},
      {"cp_async_commit", kCommitCopies},
      {"cp_async_wait", kWaitCopies},
      {"cp_async_arrive", kUnsupported},
      {"tma_load", kTmaLoad},
      {"tma_store", kTmaStore},
      {"tma_store_add", kTmaStore},
      {"tma_store_commit", kCommitStores},
      {"tma_store_wait_read", kWaitStores},
      {"tma_store_wait", kWaitStores},
      {"wgmma_fence", kWgmmaFence},
      {"wgmma_commit", kCommitWgmma},
      {"wgmma_wait", kWaitWgmma},
      {"hold", kHold},
      {"hold_bits", kHold},
      {"tcgen05_mma_ss", kTensorCore},
      {"tcgen05_mma_ts", kTensorCore},
      {"tcgen05_mma_scaled_ss", kTensorCore},
      {"tcgen05_mma_scaled_ts", kTensorCore},
      {"tcgen05_cp", kTensorCore},
      {"tcgen05_commit", kCommitTensorCore},
      {"tcgen05_load", kTmemLoad},
      {"tcgen05_wait_st", kWaitTmemStores},
      {"tcgen05_before_thread_sync", kBeforeSync},
      {"tcgen05_after_thread_sync", kAfterSync},
      {"tcgen05_alloc", kAllocTmem},
      {"tcgen05_dealloc", kFreeTmem},
  };
  return table;
}

std::string_view BaseName(std::string_view name) {
  if (name.starts_with("tl::")) name.remove_prefix(4);
  return name.substr(0, name.find('<'));
}

int64_t TemplateNumber(std::string_view name) {
  size_t at = name.find('<');
  return at == std::string_view::npos ? 0 : std::atoll(std::string(name.substr(at + 1)).c_str());
}

bool IsCall(const ir::Expr& e) {
  const auto* call = e.as<ir::CallNode>();
  return call != nullptr && OperationOf(call).kind != kNone;
}

}  // namespace

Operation OperationOf(const ir::CallNode* call) {
  std::string_view name(call->name.data(), call->name.size());
  std::string_view base = BaseName(name);
  if (call->attrs.count("by_warpgroup") != 0) return {kWgmma};
  if (base.starts_with("tcgen05_st_")) return {kTmemStore};
  auto known = Table().find(base);
  if (known == Table().end()) {
    const ir::Intrinsic* intrinsic = ir::FindIntrinsic(name);
    bool orders = call->attrs.count("async") != 0 ||
                  (intrinsic != nullptr && intrinsic->sync != ir::SyncKind::kNone);
    return {orders ? kUnsupported : kNone};
  }
  // On a barrier of another CTA of the cluster.
  if (known->second == kArrive && call->args.size() > 1) return {kUnsupported};
  return {known->second, TemplateNumber(name)};
}

Operation OperationOf(const ir::Stmt& s) {
  const auto* evaluate = s.as<ir::EvaluateNode>();
  const auto* call = evaluate != nullptr ? evaluate->value.as<ir::CallNode>() : nullptr;
  return call != nullptr ? OperationOf(call) : Operation();
}

bool HasOperation(const ir::Stmt& s) {
  bool found = false;
  ir::WalkExprs(s, [&](const ir::Expr& e) { return !(found = found || IsCall(e)); });
  return found;
}

bool HasOperation(const ir::Expr& e) {
  bool found = false;
  ir::WalkExprs(e, [&](const ir::Expr& part) { return !(found = found || IsCall(part)); });
  return found;
}

bool IsAsynchronous(OperationKind kind) {
  return kind == kTmaLoad || kind == kTmaStore || kind == kCopyAsync || kind == kWgmma ||
         kind == kTensorCore;
}

const char* Describe(OperationKind kind) {
  switch (kind) {
    case kTmaLoad:
      return "load by TMA";
    case kTmaStore:
      return "store by TMA";
    case kCopyAsync:
      return "copy by cp.async";
    case kWgmma:
      return "wgmma";
    case kTensorCore:
      return "tcgen05 instruction";
    case kTmemLoad:
      return "load from tensor memory";
    case kTmemStore:
      return "store to tensor memory";
    case kFreeTmem:
      return "release of tensor memory";
    default:
      return "access by threads";
  }
}

}  // namespace tilelang::order
