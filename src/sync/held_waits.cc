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
  bool by_node = false;
  WalkStmts(s, [&](const Stmt& part) {
    const auto* issue = part.as<IssueNode>();
    const auto* wait = part.as<WaitNode>();
    by_node |= wait != nullptr && wait->IsForWgmma();
    by_node |= issue != nullptr && issue->completion->engine_kind() == Engine::kWgmma;
    return !by_node;
  });
  bool by_call = analysis::HasCall(s, [](const CallNode* call, const Intrinsic* intrinsic) {
    if (intrinsic == nullptr) {
      bool waits =
          std::string_view(call->name.data(), call->name.size()).starts_with(op::kWgmmaWait);
      return waits || analysis::IsOfProgram(call);
    }
    bool arrives = analysis::ArrivesForOthers(call) && !analysis::GivenBackBy(call);
    return arrives || intrinsic->sync == SyncKind::kCta;
  });
  return by_node || by_call || LeavesSequence(s);
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

std::vector<analysis::AccessPtr> HeldWaits::WorkOf(const Wait& wait, int last,
                                                   const PendingAccesses& pending) const {
  std::vector<analysis::AccessPtr> work;
  if (wait->IsForWgmma()) {
    int before = 0;  // groups of other waits
    for (const Held& other : waits_) before = std::max(before, other.group);
    for (const PendingAccess& p : pending.All()) {
      int group = committed_ - p.groups + 1;
      bool own = before < group && group <= last;
      if (p.access->by_warpgroup && !p.complete && own) work.push_back(p.access);
    }
    return work;
  }
  // Work of the tensor core names no mbarrier; a commit after it does.
  bool by_commit = wait->completion->engine_kind() == Engine::kTcgen05;
  for (const PendingAccess& p : pending.All()) {
    const Buffer& barrier = p.access->barrier;
    bool own = barrier.same_as(wait->completion->barrier) || (by_commit && !barrier.defined());
    if (p.WaitsForEngine() && own) work.push_back(p.access);
  }
  return work;
}

bool HeldWaits::Hold(const Wait& wait, const PendingAccesses& pending) {
  int group = wait->IsForWgmma() ? committed_ - static_cast<int>(wait->left) : 0;
  Held held{wait, WorkOf(wait, group, pending), group};
  if (!wait->IsForWgmma() && held.work.empty()) return false;
  waits_.push_back(std::move(held));
  return true;
}

std::vector<Stmt> HeldWaits::TakeBefore(const Use& use) {
  if (waits_.empty()) return {};
  auto any = [&](bool for_wgmma) {
    return std::any_of(waits_.begin(), waits_.end(),
                       [&](const Held& held) { return held.wait->IsForWgmma() == for_wgmma; });
  };
  bool all = any(false) && (IsBoundary(use.stmt) || WritesTensors(use.stmt));
  bool all_wgmma = any(true) && IsBoundaryOfWgmma(use.stmt);
  return TakeIf([&](const Held& held) {
    const Completion& completion = held.wait->completion;
    if (held.wait->IsForWgmma() ? all_wgmma : all) return true;
    if (Touches(use.accesses, held.work)) return true;
    if (!held.wait->IsForWgmma()) return UsesBuffer(use.stmt, completion->barrier);
    return std::any_of(completion->registers.begin(), completion->registers.end(),
                       [&](const Buffer& registers) { return Uses(use, registers); });
  });
}

std::vector<Stmt> HeldWaits::TakeAll() {
  return TakeIf([](const Held&) { return true; });
}

std::vector<Stmt> HeldWaits::TakeIf(const std::function<bool(const Held&)>& due) {
  std::vector<bool> taken;
  int complete = 0;  // groups
  for (const Held& held : waits_) {
    taken.push_back(due(held));
    if (taken.back()) complete = std::max(complete, held.group);
  }
  std::vector<Stmt> stmts;
  std::vector<Held> left;
  std::vector<Held> groups;
  for (size_t i = 0; i < waits_.size(); ++i) {
    Held& held = waits_[i];
    if (held.wait->IsForWgmma() && held.group <= complete) {
      groups.push_back(std::move(held));
    } else if (taken[i]) {
      stmts.push_back(held.wait);
    } else {
      left.push_back(std::move(held));
    }
  }
  if (!groups.empty()) stmts.push_back(Together(groups));
  waits_ = std::move(left);
  return stmts;
}

Stmt HeldWaits::Together(const std::vector<Held>& waits) const {
  std::vector<Buffer> registers;
  for (const Held& held : waits) {
    for (const Buffer& buffer : held.wait->completion->registers) {
      bool again = std::any_of(registers.begin(), registers.end(),
                               [&](const Buffer& other) { return other.same_as(buffer); });
      if (!again) registers.push_back(buffer);
    }
  }
  auto completion = Completion::OfWgmma(Array<Buffer>(registers.begin(), registers.end()));
  const Held& last = waits.back();
  return Wait(completion, committed_ - last.group, last.wait.span());
}

}  // namespace tilelang::sync
