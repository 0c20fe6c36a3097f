#include "analysis/waits.h"

#include "ir/intrinsics.h"
#include "ir/visitor.h"
#include "op/issue.h"

namespace tilelang::analysis {

using namespace ir;  // NOLINT(google-build-using-namespace)

namespace {

// Whether a statement in `s`, at any depth, passes the test.
template <typename Test>
bool Any(const Stmt& s, const Test& test) {
  bool found = false;
  WalkStmts(s, [&](const Stmt& part) { return !(found = found || test(part)); });
  return found;
}

bool IsOfRoles(const Buffer& barrier) { return !op::ThreadsWaitingOn(barrier).has_value(); }

// The wait for a phase of its own block's, or a pair's, barrier.
const WaitParityNode* AsWait(const Stmt& s) {
  const auto* wait = s.as<WaitParityNode>();
  return wait != nullptr && wait->scope_kind() != Scope::kCluster ? wait : nullptr;
}

}  // namespace

Buffer MbarrierWaitedOn(const Stmt& s) {
  if (const auto* wait = s.as<WaitNode>()) return wait->completion->barrier;
  const WaitParityNode* wait = AsWait(s);
  return wait != nullptr ? wait->barrier() : Buffer();
}

bool WaitsOnMbarrier(const Stmt& s) {
  return WaitsForAll(s, Engine::kTmaLoad) || WaitsForAll(s, Engine::kTcgen05) ||
         Any(s, [](const Stmt& part) { return AsWait(part) != nullptr; });
}

bool WaitsForAll(const Stmt& s, Engine engine) {
  return Any(s, [&](const Stmt& part) {
    const auto* wait = part.as<WaitNode>();
    return wait != nullptr && wait->engine() == engine && wait->left == 0;
  });
}

bool IsRole(const Stmt& s) {
  return Any(s, [](const Stmt& part) {
    const WaitParityNode* wait = AsWait(part);
    return wait != nullptr && IsOfRoles(wait->barrier());
  });
}

bool ArrivesForRoles(const Stmt& s) {
  const auto* arrive = s.as<ArriveNode>();
  return arrive != nullptr && arrive->IsByThread() && IsOfRoles(arrive->barrier());
}

bool ArrivesForOthers(const Stmt& s) {
  if (const auto* barrier = s.as<BarrierNode>()) {
    return barrier->Part() == BarrierPart::kArrive ||
           barrier->Part() == BarrierPart::kArriveRelaxed;
  }
  return ArrivesForRoles(s);
}

Optional<Array<Buffer>> GivenBackBy(const Stmt& s) {
  if (const auto* arrive = s.as<ArriveNode>()) return arrive->gives;
  if (const auto* barrier = s.as<BarrierNode>()) return barrier->gives;
  return std::nullopt;
}

bool HasUnknownCall(const Stmt& s) {
  bool found = false;
  WalkExprs(s, [&](const Expr& e) {
    const auto* call = e.as<CallNode>();
    found |= call != nullptr && IsUnknown(call);
    return !found;
  });
  return found;
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
