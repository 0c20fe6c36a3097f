#include "sync/held_waits.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "analysis/sync_calls.h"
#include "ir/effects.h"
#include "ir/intrinsics.h"
#include "ir/visitor.h"
#include "op/issue.h"

namespace tilelang::sync {

using namespace ir;  // NOLINT(google-build-using-namespace)

namespace {

// The mbarrier of the compiler's on which a statement waits, or null.
Buffer CompletionWaitedOn(const Stmt& s) {
  if (analysis::CalledBy(s) != "mbarrier_wait_parity") return {};
  Buffer barrier = analysis::MbarrierWaitedOn(s);
  return barrier.defined() && op::ThreadsWaitingOn(barrier) ? barrier : Buffer();
}

// Threads synchronize in it, leave the sequence, hand something over, or do what only the program
// knows: nothing is moved past that.
bool IsBoundary(const Stmt& s) {
  bool found = false;
  WalkStmts(s, [&](const Stmt& part) {
    found |= part->kind == StmtKind::kBreak || part->kind == StmtKind::kContinue;
    return !found;
  });
  WalkExprs(s, [&](const Expr& e) {
    if (const auto* load = e.as<LoadNode>()) {
      found |= load->buffer.IsBarrier() && !op::ThreadsWaitingOn(load->buffer);
    }
    if (const auto* call = e.as<CallNode>()) {
      const Intrinsic* known = FindIntrinsic({call->name.data(), call->name.size()});
      bool synchronizes = known != nullptr && known->sync != SyncKind::kNone;
      Buffer barrier = synchronizes ? analysis::MbarrierOf(call) : Buffer();
      bool completion = barrier.defined() && op::ThreadsWaitingOn(barrier);
      found |= analysis::IsOfProgram(call) || (synchronizes && !completion);
    }
    return !found;
  });
  return found;
}

// By place alone: which thread asks for it does not matter to work in flight.
bool DependsOn(const analysis::MemoryAccess& later, const analysis::MemoryAccess& work) {
  return (later.write || work.write) && later.begin < work.end && work.begin < later.end;
}

// An engine may still read a tensor that the statement writes.
bool WritesTensors(const Stmt& s) {
  std::vector<Effect> effects = EffectsOf(s);
  return std::any_of(effects.begin(), effects.end(), [](const Effect& effect) {
    return effect.Writes() && effect.buffer.IsGlobal();
  });
}

}  // namespace

size_t HeldWaits::LengthAt(const Array<Stmt>& stmts, size_t first) {
  if (!CompletionWaitedOn(stmts[first]).defined() || first + 1 >= stmts.size()) return 0;
  const auto* next_phase = stmts[first + 1].as<StoreNode>();
  if (next_phase == nullptr || next_phase->buffer->scope != "local.var") return 0;
  bool fence = first + 2 < stmts.size() &&
               analysis::CalledBy(stmts[first + 2]) == analysis::kTcgen05FenceAfter;
  return fence ? 3 : 2;
}

bool HeldWaits::Hold(const Array<Stmt>& stmts, size_t first, size_t count,
                     const PendingAccesses& pending) {
  Wait wait{{}, CompletionWaitedOn(stmts[first]), {}};
  // Work of the tensor core names no mbarrier; a commit after it does.
  bool by_commit = count == 3;
  for (const PendingAccess& p : pending.All()) {
    const Buffer& barrier = p.access->barrier;
    bool own = barrier.same_as(wait.barrier) || (by_commit && !barrier.defined());
    if (p.WaitsForEngine() && own) wait.work.push_back(p.access);
  }
  if (wait.work.empty()) return false;
  for (size_t i = first; i < first + count; ++i) wait.stmts.push_back(stmts[i]);
  waits_.push_back(std::move(wait));
  return true;
}

std::vector<Stmt> HeldWaits::TakeBefore(const Stmt& s,
                                        const std::vector<analysis::AccessPtr>& accesses) {
  if (waits_.empty()) return {};
  if (IsBoundary(s) || WritesTensors(s)) return TakeAll();
  return TakeIf([&](const Wait& wait) {
    bool touches = std::any_of(wait.work.begin(), wait.work.end(), [&](const auto& work) {
      return std::any_of(accesses.begin(), accesses.end(),
                         [&](const auto& access) { return DependsOn(*access, *work); });
    });
    return touches || UsesBuffer(s, wait.barrier);
  });
}

std::vector<Stmt> HeldWaits::TakeAll() {
  return TakeIf([](const Wait&) { return true; });
}

std::vector<Stmt> HeldWaits::TakeIf(const std::function<bool(const Wait&)>& due) {
  std::vector<Stmt> taken;
  std::vector<Wait> left;
  for (Wait& wait : waits_) {
    if (due(wait)) {
      taken.insert(taken.end(), wait.stmts.begin(), wait.stmts.end());
    } else {
      left.push_back(std::move(wait));
    }
  }
  waits_ = std::move(left);
  return taken;
}

}  // namespace tilelang::sync
