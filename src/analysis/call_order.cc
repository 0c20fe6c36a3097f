#include "analysis/call_order.h"

#include <string_view>
#include <unordered_map>

#include "ir/intrinsics.h"
#include "ir/visitor.h"
#include "op/effect.h"
#include "op/issue.h"

namespace tilelang::analysis {

using namespace ir;  // NOLINT(google-build-using-namespace)

namespace {

// Functions of the language, and device functions by their names in namespace tl.
const std::unordered_map<std::string_view, CallOrder>& Named() {
  static const std::unordered_map<std::string_view, CallOrder> table = {
      {"sync_warpgroups", CallOrder::kWarpgroups},
      {"mbarrier_wait_parity", CallOrder::kWait},
      {"tl::mbarrier_wait_cluster", CallOrder::kWaitCluster},
      {"mbarrier_try_wait", CallOrder::kTest},
      {"mbarrier_arrive", CallOrder::kArrive},
      {"mbarrier_arrive_expect_tx", CallOrder::kExpect},
      {"named_barrier_arrive", CallOrder::kArriveOther},
      {"cluster_arrive", CallOrder::kArriveOther},
      {"cluster_arrive_relaxed", CallOrder::kArriveOther},
      {"tl::tcgen05_commit", CallOrder::kCommit},
      {"tl::tcgen05_commit_pair", CallOrder::kCommit},
      {"tl::tcgen05_commit_multicast", CallOrder::kCommit},
      {"fence_proxy_async", CallOrder::kProxyFence},
      {"tcgen05_before_thread_sync", CallOrder::kTensorBefore},
      {"tl::tcgen05_before_thread_sync", CallOrder::kTensorBefore},
      {"tcgen05_after_thread_sync", CallOrder::kTensorAfter},
      {"tl::tcgen05_after_thread_sync", CallOrder::kTensorAfter},
      {"tl::tcgen05_alloc", CallOrder::kTensorAlloc},
      {"tl::tcgen05_alloc<2>", CallOrder::kTensorAlloc},
      {"tl::tcgen05_dealloc", CallOrder::kTensorFree},
      {"tl::tcgen05_dealloc<2>", CallOrder::kTensorFree},
  };
  return table;
}

// The call's mbarrier is one of the program.
bool IsForProgram(const CallNode* call) {
  bool own = false;
  WalkExprs(call->args[0], [&](const Expr& e) {
    const auto* load = e.as<LoadNode>();
    own |= load != nullptr && op::ThreadsWaitingOn(load->buffer).has_value();
    return true;
  });
  return !own;
}

}  // namespace

CallOrder OrderOf(const CallNode* call) {
  std::string_view name(call->name.data(), call->name.size());
  auto known = Named().find(name);
  if (known != Named().end()) return known->second;
  const Intrinsic* intrinsic = FindIntrinsic(name);
  if (intrinsic == nullptr) {
    return name.starts_with("tl::") ? CallOrder::kNone : CallOrder::kUnknown;
  }
  if (intrinsic->sync == SyncKind::kCta) return CallOrder::kBlock;
  return intrinsic->sync == SyncKind::kWarp ? CallOrder::kWarp : CallOrder::kNone;
}

bool HasCall(const Stmt& s, const std::function<bool(const CallNode*)>& test) {
  bool found = false;
  WalkExprs(s, [&](const Expr& e) {
    const auto* call = e.as<CallNode>();
    found |= call != nullptr && test(call);
    return !found;
  });
  return found;
}

bool Does(const Stmt& s, CallOrder order) {
  return HasCall(s, [&](const CallNode* call) { return OrderOf(call) == order; });
}

bool IsCallThat(const Stmt& s, CallOrder order) {
  const CallNode* call = op::CallOf(s);
  return call != nullptr && OrderOf(call) == order;
}

Buffer MbarrierOf(const CallNode* call) {
  Buffer result;
  for (const Expr& arg : call->args) {
    WalkExprs(arg, [&](const Expr& e) {
      const auto* load = e.as<LoadNode>();
      if (load != nullptr && load->buffer.IsBarrier()) result = load->buffer;
      return true;
    });
  }
  return result;
}

Buffer MbarrierWaitedOn(const Stmt& s) {
  if (const auto* wait = s.as<WaitNode>()) return wait->completion->barrier;
  Buffer result;
  HasCall(s, [&](const CallNode* call) {
    bool waits = OrderOf(call) == CallOrder::kWait;
    if (waits) result = MbarrierOf(call);
    return waits;
  });
  return result;
}

bool WaitsOnMbarrier(const Stmt& s) {
  return WaitsForAll(s, Engine::kTmaLoad) || WaitsForAll(s, Engine::kTcgen05) ||
         Does(s, CallOrder::kWait);
}

bool WaitsForAll(const Stmt& s, Engine engine) {
  bool waits = false;
  WalkStmts(s, [&](const Stmt& part) {
    const auto* wait = part.as<WaitNode>();
    waits |= wait != nullptr && wait->engine() == engine && wait->left == 0;
    return !waits;
  });
  return waits;
}

bool IsRole(const Stmt& s) {
  return HasCall(s, [](const CallNode* call) {
    return OrderOf(call) == CallOrder::kWait && IsForProgram(call);
  });
}

bool ArrivesForRoles(const CallNode* call) {
  CallOrder order = OrderOf(call);
  return (order == CallOrder::kArrive || order == CallOrder::kExpect) && IsForProgram(call);
}

bool ArrivesForOthers(const CallNode* call) {
  return OrderOf(call) == CallOrder::kArriveOther || ArrivesForRoles(call);
}

std::optional<Array<Buffer>> GivenBackBy(const CallNode* call) {
  auto tiles = call->attrs.Get(op::kGivesBack);
  return tiles ? std::optional((*tiles).cast<Array<Buffer>>()) : std::nullopt;
}

bool UsesProgramBarrier(const Stmt& s) {
  bool found = false;
  WalkExprs(s, [&](const Expr& e) {
    const auto* call = e.as<CallNode>();
    if (call != nullptr && call->name == "mbarrier_init") return false;
    const auto* load = e.as<LoadNode>();
    found |= load != nullptr && op::IsProgramBarrier(load->buffer);
    return !found;
  });
  return found;
}

}  // namespace tilelang::analysis
