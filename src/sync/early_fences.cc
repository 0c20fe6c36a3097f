#include "sync/early_fences.h"

#include "analysis/waits.h"
#include "ir/async.h"
#include "ir/intrinsics.h"
#include "ir/visitor.h"
#include "op/effect.h"

namespace tilelang::sync {

using namespace analysis;  // NOLINT(google-build-using-namespace)
using namespace ir;        // NOLINT(google-build-using-namespace)

namespace {

bool IsFence(const Stmt& s, FenceKind kind) {
  const auto* fence = s.as<FenceNode>();
  return fence != nullptr && fence->Kind() == kind;
}

// Returns whether a statement releases accesses of tensor memory to other threads or acquires them.
bool HandsOver(const Stmt& s) {
  bool found = false;
  WalkStmts(s, [&](const Stmt& part) {
    const CallNode* call = op::CallOf(part);
    found = found || part.as<ArriveNode>() != nullptr || part.as<BarrierNode>() != nullptr ||
            part.as<TmemAllocNode>() != nullptr || part.as<WaitParityNode>() != nullptr ||
            part->kind == StmtKind::kBreak || part->kind == StmtKind::kContinue ||
            IsFence(part, FenceKind::kTcgen05After) || ArrivesForOthers(part) ||
            HasCall(part, Builtin::kBlockVote) || (call != nullptr && IsUnknown(call));
    return !found;
  });
  return found;
}

}  // namespace

std::vector<Stmt> WithoutEarlyFences(const std::vector<Stmt>& stmts,
                                     const std::function<bool(const Stmt&)>& removable,
                                     const std::function<bool(const Stmt&)>& meets) {
  std::vector<Stmt> kept;
  bool replaced = false;  // by a fence behind this place
  for (size_t i = stmts.size(); i-- > 0;) {
    const Stmt& s = stmts[i];
    if (IsFence(s, FenceKind::kTcgen05Before)) {
      if (replaced && removable(s)) continue;
      replaced = i + 1 < stmts.size() && meets(stmts[i + 1]);
    } else if (replaced && !meets(s) && HandsOver(s)) {
      replaced = false;
    }
    kept.push_back(s);
  }
  return {kept.rbegin(), kept.rend()};
}

}  // namespace tilelang::sync
