#include "sync/work_in_flight.h"

#include <algorithm>
#include <utility>

#include "analysis/waits.h"
#include "ir/effects.h"
#include "ir/intrinsics.h"
#include "ir/same.h"
#include "ir/visitor.h"
#include "op/issue.h"

namespace tilelang::sync {

using namespace ir;  // NOLINT(google-build-using-namespace)

namespace {

bool LeavesSequence(const Stmt& s) {
  return HasStmt(s, [](const Stmt& part) {
    return part->kind == StmtKind::kBreak || part->kind == StmtKind::kContinue;
  });
}

// More than warpgroups wait for each other, or the lanes of a warp.
bool Meets(const BarrierNode* barrier) {
  return barrier->Part() == BarrierPart::kWhole && barrier->Kind() != BarrierKind::kWarpgroups;
}

bool HasVoteOrUnknown(const Stmt& s) {
  return HasCall(
      s, [](const CallNode* call) { return call->Is(Builtin::kBlockVote) || IsUnknown(call); });
}

// Threads synchronize in it, leave the sequence, hand something over, or do what only the program
// knows: nothing is moved past that.
bool IsBoundary(const Stmt& s) {
  auto meets = [](const Stmt& part) {
    const auto* barrier = part.as<BarrierNode>();
    return barrier != nullptr && Meets(barrier);
  };
  auto hands_over = [](const Expr& e) {
    const auto* load = e.as<LoadNode>();
    return load != nullptr && load->buffer.IsBarrier() && !op::ThreadsWaitingOn(load->buffer);
  };
  return LeavesSequence(s) || HasVoteOrUnknown(s) || HasStmt(s, meets) || HasExpr(s, hands_over);
}

// Compares memory only: the issuing thread does not matter for work in flight.
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

// Does the same for wgmma in flight. Warpgroups may wait on mbarriers in the meantime, and hand
// over tiles that the wgmma does not use.
bool IsBoundaryOfWgmma(const Stmt& s) {
  auto ends = [&](const Stmt& part) {
    const auto* issue = part.as<IssueNode>();
    const auto* wait = part.as<WaitNode>();
    const auto* barrier = part.as<BarrierNode>();
    bool other = issue != nullptr && issue->engine() == Engine::kWgmma && !part.same_as(s);
    bool meets = barrier != nullptr && Meets(barrier) && barrier->Kind() != BarrierKind::kWarp;
    return other || meets || (wait != nullptr && wait->engine() == Engine::kWgmma) ||
           (analysis::ArrivesForOthers(part) && !analysis::GivenBackBy(part));
  };
  return HasStmt(s, ends) || HasVoteOrUnknown(s) || LeavesSequence(s);
}

bool Touches(const std::vector<analysis::AccessPtr>& accesses,
             const std::vector<analysis::AccessPtr>& work) {
  return std::any_of(work.begin(), work.end(), [&](const auto& earlier) {
    return std::any_of(accesses.begin(), accesses.end(),
                       [&](const auto& later) { return DependsOn(*later, *earlier); });
  });
}

bool UsesAnyOf(const Stmt& s, const Array<Buffer>& buffers) {
  return std::any_of(buffers.begin(), buffers.end(),
                     [&](const Buffer& buffer) { return UsesBuffer(s, buffer); });
}

}  // namespace

bool WorkInFlight::Add(const IssueNode* issue, const std::vector<analysis::AccessPtr>& accesses) {
  bool wgmma = issue->engine() == Engine::kWgmma;
  groups_ += wgmma;
  if (issue->awaited) return true;
  Work work{issue->completion, issue->span, accesses, groups_};
  std::erase_if(work.accesses, [](const auto& access) { return access->proxy != Proxy::kAsync; });
  if (!wgmma && work.accesses.empty()) return false;
  work_.push_back(std::move(work));
  return true;
}

std::vector<Stmt> WorkInFlight::TakeBefore(const Stmt& s,
                                           const std::vector<analysis::AccessPtr>& accesses) {
  if (work_.empty()) return {};
  auto any = [&](bool of_wgmma) {
    return std::any_of(work_.begin(), work_.end(),
                       [&](const Work& work) { return work.IsOfWgmma() == of_wgmma; });
  };
  bool all = any(false) && (IsBoundary(s) || WritesTensors(s));
  bool all_wgmma = any(true) && IsBoundaryOfWgmma(s);
  return TakeIf([&](const Work& work) {
    if (work.IsOfWgmma() ? all_wgmma : all) return true;
    if (Touches(accesses, work.accesses)) return true;
    return work.IsOfWgmma() ? UsesAnyOf(s, work.completion->registers)
                            : UsesBuffer(s, work.completion->barrier);
  });
}

std::vector<Stmt> WorkInFlight::TakeAllocatedIn(const SeqNode* seq) {
  if (work_.empty()) return {};
  auto allocated = [&](const Buffer& buffer) {
    return std::any_of(seq->stmts.begin(), seq->stmts.end(), [&](const Stmt& s) {
      const auto* alloc = s.as<AllocNode>();
      return alloc != nullptr && alloc->buffer.same_as(buffer);
    });
  };
  return TakeIf([&](const Work& work) {
    const Array<Buffer>& registers = work.completion->registers;
    return work.IsOfWgmma() && std::any_of(registers.begin(), registers.end(), allocated);
  });
}

std::vector<Stmt> WorkInFlight::TakeAll() {
  return TakeIf([](const Work&) { return true; });
}

bool WorkInFlight::IsEndedBy(const Stmt& s) { return IsBoundary(s) || IsBoundaryOfWgmma(s); }

std::vector<Stmt> WorkInFlight::TakeIf(const std::function<bool(const Work&)>& due) {
  std::vector<bool> taken;
  int complete = 0;  // groups
  for (const Work& work : work_) {
    taken.push_back(due(work));
    if (taken.back()) complete = std::max(complete, work.group);
  }
  std::vector<Stmt> stmts;
  std::vector<Work> left;
  std::vector<Work> groups;
  for (size_t i = 0; i < work_.size(); ++i) {
    Work& work = work_[i];
    if (work.IsOfWgmma() && work.group <= complete) {
      groups.push_back(std::move(work));
    } else if (taken[i]) {
      stmts.push_back(Wait(work.completion, 0, work.span));
    } else {
      left.push_back(std::move(work));
    }
  }
  if (!groups.empty()) stmts.push_back(Together(groups));
  work_ = std::move(left);
  return stmts;
}

Stmt WorkInFlight::Together(const std::vector<Work>& groups) const {
  Array<Buffer> registers;
  for (const Work& work : groups) {
    for (const Buffer& buffer : work.completion->registers) AddOnce(buffer, &registers);
  }
  auto completion = Completion::OfWgmma(registers);
  const Work& last = groups.back();
  return Wait(completion, groups_ - last.group, last.span);
}

}  // namespace tilelang::sync
