#include "analysis/sync_calls.h"

#include <string>
#include <string_view>

#include "ir/async.h"
#include "ir/visitor.h"
#include "op/effect.h"
#include "op/issue.h"

namespace tilelang::analysis {

using namespace ir;  // NOLINT(google-build-using-namespace)

namespace {

std::string_view NameOf(const CallNode* call) { return {call->name.data(), call->name.size()}; }

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

std::string_view CalledBy(const Stmt& s) {
  const CallNode* call = op::CallOf(s);
  return call != nullptr ? NameOf(call) : "";
}

bool HasCall(const Stmt& s, const std::function<bool(const CallNode*, const Intrinsic*)>& test) {
  bool found = false;
  WalkExprs(s, [&](const Expr& e) {
    if (const auto* call = e.as<CallNode>()) {
      found |= test(call, FindIntrinsic({call->name.data(), call->name.size()}));
    }
    return !found;
  });
  return found;
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
  HasCall(s, [&](const CallNode* call, const Intrinsic* intrinsic) {
    bool waits = intrinsic != nullptr && intrinsic->sync == SyncKind::kBarrier;
    if (waits) result = MbarrierOf(call);
    return waits;
  });
  return result;
}

bool WaitsOnMbarrier(const Stmt& s) {
  return WaitsForAll(s, Engine::kTmaLoad) || WaitsForAll(s, Engine::kTcgen05) ||
         HasCall(s, [](const CallNode*, const Intrinsic* intrinsic) {
           return intrinsic != nullptr && intrinsic->sync == SyncKind::kBarrier;
         });
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
  return HasCall(s, [](const CallNode* call, const Intrinsic* intrinsic) {
    return intrinsic != nullptr && intrinsic->sync == SyncKind::kBarrier && IsForProgram(call);
  });
}

bool IsOfProgram(const CallNode* call) {
  return FindIntrinsic(NameOf(call)) == nullptr && !NameOf(call).starts_with("tl::");
}

bool IsArrivalCall(const CallNode* call) {
  bool arrives = call->name == "mbarrier_arrive" || call->name == "mbarrier_arrive_expect_tx";
  return arrives && IsForProgram(call);
}

bool ArrivesForOthers(const CallNode* call) {
  return call->name == "named_barrier_arrive" || NameOf(call).starts_with("cluster_arrive") ||
         IsArrivalCall(call);
}

std::optional<Array<Buffer>> GivenBackBy(const CallNode* call) {
  auto tiles = call->attrs.Get(op::kGivesBack);
  return tiles ? std::optional((*tiles).cast<Array<Buffer>>()) : std::nullopt;
}

bool IsArrival(const Stmt& s) {
  return s->kind == StmtKind::kEvaluate &&
         HasCall(s, [](const CallNode* call, const Intrinsic*) { return IsArrivalCall(call); });
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

bool IsFence(const Stmt& s) { return CalledBy(s) == "fence_proxy_async"; }

}  // namespace tilelang::analysis
