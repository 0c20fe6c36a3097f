#include "sync/held_waits.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "analysis/sync_calls.h"
#include "ir/effects.h"
#include "ir/intrinsics.h"
#include "ir/visitor.h"
#include "op/gemm_wgmma.h"
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

bool LeavesSequence(const Stmt& s) {
  bool found = false;
  WalkStmts(s, [&](const Stmt& part) {
    found |= part->kind == StmtKind::kBreak || part->kind == StmtKind::kContinue;
    return !found;
  });
  return found;
}

// Threads synchronize in it, leave the sequence, hand something over, or do what only the program
// knows: nothing is moved past that.
bool IsBoundary(const Stmt& s) {
  bool found = LeavesSequence(s);
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

// The same for wgmma in flight: warpgroups may wait on mbarriers meanwhile, and hand over tiles
// that it does not use.
bool IsBoundaryOfWgmma(const Stmt& s) {
  bool by_call = analysis::HasCall(s, [](const CallNode* call, const Intrinsic* intrinsic) {
    if (intrinsic == nullptr) {
      bool waits =
          std::string_view(call->name.data(), call->name.size()).starts_with(op::kWgmmaWait);
      return waits || analysis::IsOfProgram(call);
    }
    bool arrives = analysis::ArrivesForOthers(call) && !analysis::GivenBackBy(call);
    return arrives || intrinsic->sync == SyncKind::kCta;
  });
  return by_call || LeavesSequence(s);
}

bool Uses(const HeldWaits::Use& use, const Buffer& buffer) {
  return UsesBuffer(use.stmt, buffer) ||
         std::any_of(use.parts.begin(), use.parts.end(),
                     [&](const Stmt& part) { return UsesBuffer(part, buffer); });
}

bool Touches(const std::vector<analysis::AccessPtr>& accesses,
             const std::vector<analysis::AccessPtr>& work) {
  return std::any_of(work.begin(), work.end(), [&](const auto& earlier) {
    return std::any_of(accesses.begin(), accesses.end(),
                       [&](const auto& later) { return DependsOn(*later, *earlier); });
  });
}

}  // namespace

size_t HeldWaits::LengthAt(const Array<Stmt>& stmts, size_t first) {
  if (op::IsAwaitWgmma(stmts[first])) {
    size_t end = first + 1;
    while (end < stmts.size() && op::HeldAfterWait(stmts[end]).defined()) ++end;
    return end - first;
  }
  if (!CompletionWaitedOn(stmts[first]).defined() || first + 1 >= stmts.size()) return 0;
  const auto* next_phase = stmts[first + 1].as<StoreNode>();
  if (next_phase == nullptr || next_phase->buffer->scope != "local.var") return 0;
  bool fence = first + 2 < stmts.size() &&
               analysis::CalledBy(stmts[first + 2]) == analysis::kTcgen05FenceAfter;
  return fence ? 3 : 2;
}

bool HeldWaits::Hold(const Array<Stmt>& stmts, size_t first, size_t count,
                     const PendingAccesses& pending) {
  if (op::IsAwaitWgmma(stmts[first])) return HoldWgmma(stmts, first, count, pending);
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

bool HeldWaits::HoldWgmma(const Array<Stmt>& stmts, size_t first, size_t count,
                          const PendingAccesses& pending) {
  int left = *analysis::WgmmaLeftBy(stmts[first]);
  Wait wait{{}, {}, {}};
  wait.group = committed_ - left;
  int before = 0;  // groups of other waits
  for (const Wait& other : waits_) {
    if (other.IsForWgmma()) before = std::max(before, other.group);
  }
  for (const PendingAccess& p : pending.All()) {
    int group = committed_ - p.groups + 1;
    bool own = before < group && group <= wait.group;
    if (p.access->by_warpgroup && !p.complete && own) wait.work.push_back(p.access);
  }
  for (size_t i = first; i < first + count; ++i) {
    wait.stmts.push_back(stmts[i]);
    if (i > first) wait.registers.push_back(op::HeldAfterWait(stmts[i]));
  }
  waits_.push_back(std::move(wait));
  return true;
}

std::vector<Stmt> HeldWaits::TakeBefore(const Use& use) {
  if (waits_.empty()) return {};
  auto any = [&](bool for_wgmma) {
    return std::any_of(waits_.begin(), waits_.end(),
                       [&](const Wait& wait) { return wait.IsForWgmma() == for_wgmma; });
  };
  bool all = any(false) && (IsBoundary(use.stmt) || WritesTensors(use.stmt));
  bool all_wgmma = any(true) && IsBoundaryOfWgmma(use.stmt);
  return TakeIf([&](const Wait& wait) {
    if (wait.IsForWgmma() ? all_wgmma : all) return true;
    if (Touches(use.accesses, wait.work)) return true;
    if (!wait.IsForWgmma()) return UsesBuffer(use.stmt, wait.barrier);
    return std::any_of(wait.registers.begin(), wait.registers.end(),
                       [&](const Buffer& registers) { return Uses(use, registers); });
  });
}

std::vector<Stmt> HeldWaits::TakeAll() {
  return TakeIf([](const Wait&) { return true; });
}

std::vector<Stmt> HeldWaits::TakeIf(const std::function<bool(const Wait&)>& due) {
  std::vector<bool> taken;
  int complete = 0;  // groups
  for (const Wait& wait : waits_) {
    taken.push_back(due(wait));
    if (taken.back() && wait.IsForWgmma()) complete = std::max(complete, wait.group);
  }
  std::vector<Stmt> stmts;
  std::vector<Wait> left;
  std::vector<Wait> groups;
  for (size_t i = 0; i < waits_.size(); ++i) {
    Wait& wait = waits_[i];
    if (wait.IsForWgmma() && wait.group <= complete) {
      groups.push_back(std::move(wait));
    } else if (taken[i]) {
      stmts.insert(stmts.end(), wait.stmts.begin(), wait.stmts.end());
    } else {
      left.push_back(std::move(wait));
    }
  }
  std::vector<Stmt> together = Together(groups);
  stmts.insert(stmts.end(), together.begin(), together.end());
  waits_ = std::move(left);
  return stmts;
}

std::vector<Stmt> HeldWaits::Together(const std::vector<Wait>& waits) const {
  if (waits.empty()) return {};
  const Stmt& last = waits.back().stmts.front();
  std::vector<Stmt> stmts = {op::AwaitWgmma(committed_ - waits.back().group, last.span())};
  std::vector<Buffer> held;
  for (const Wait& wait : waits) {
    for (size_t i = 1; i < wait.stmts.size(); ++i) {
      const Buffer& registers = wait.registers[i - 1];
      bool again = std::any_of(held.begin(), held.end(),
                               [&](const Buffer& other) { return other.same_as(registers); });
      if (again) continue;
      held.push_back(registers);
      stmts.push_back(wait.stmts[i]);
    }
  }
  return stmts;
}

}  // namespace tilelang::sync
