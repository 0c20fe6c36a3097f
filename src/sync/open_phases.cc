#include "sync/open_phases.h"

#include <algorithm>

#include "ir/async.h"
#include "ir/same.h"
#include "ir/visitor.h"
#include "op/issue.h"
#include "op/thread_sync.h"
#include "target/warp.h"

namespace tilelang::sync {

using ir::Buffer;
using ir::Stmt;

BarrierList PhaseUses::BegunAlone() const {
  BarrierList result;
  for (const Buffer& barrier : begun) {
    if (!ir::HasSame(waited, barrier)) result.push_back(barrier);
  }
  return result;
}

PhaseUses PhasesUsedIn(const Stmt& s) {
  PhaseUses uses;
  auto use = [](const Buffer& barrier, BarrierList* list) {
    auto waiting = barrier.defined() ? op::ThreadsWaitingOn(barrier) : std::nullopt;
    // A thread that is alone issues after it has waited.
    if (waiting && waiting->count > 1) ir::AddOnce(barrier, list);
  };
  ir::WalkStmts(s, [&](const Stmt& part) {
    // A statement that issues an operation also waits for it, at a place that is not decided yet.
    const auto* issue = part.as<ir::IssueNode>();
    if (issue != nullptr && !issue->awaited) use(issue->completion->barrier, &uses.waited);
    if (const auto* wait = part.as<ir::WaitNode>()) use(wait->completion->barrier, &uses.waited);
    if (const auto* wait = part.as<ir::WaitParityNode>()) {
      bool of_others = wait->scope_kind() == ir::Scope::kCluster;
      use(wait->barrier(), of_others ? &uses.begun : &uses.waited);
    }
    if (const auto* arrive = part.as<ir::ArriveNode>()) use(arrive->barrier(), &uses.begun);
    return true;
  });
  ir::WalkExprs(s, [&](const ir::Expr& e) {
    const auto* call = e.as<ir::CallNode>();
    if (call == nullptr) return true;
    for (const ir::Expr& arg : call->args) {
      const ir::LoadNode* element = ir::AddressedElement(arg);
      if (element != nullptr) use(element->buffer, &uses.begun);
    }
    return true;
  });
  return uses;
}

const OpenPhases::Phase* OpenPhases::Find(const Buffer& barrier) const {
  auto it = std::find_if(open_.begin(), open_.end(),
                         [&](const Phase& phase) { return phase.barrier.same_as(barrier); });
  return it == open_.end() ? nullptr : &*it;
}

void OpenPhases::Open(const Phase& phase) {
  if (!Has(phase.barrier)) open_.push_back(phase);
}

bool OpenPhases::Has(const Buffer& barrier) const { return Find(barrier) != nullptr; }

BarrierList OpenPhases::OfProgram(const op::ThreadRange& group) const {
  BarrierList result;
  for (const Phase& phase : open_) {
    bool together = phase.waiting == group && op::IsProgramBarrier(phase.barrier);
    if (together) result.push_back(phase.barrier);
  }
  return result;
}

op::ThreadRange OpenPhases::WaitingOn(const Buffer& barrier) const {
  return Find(barrier)->waiting;
}

bool OpenPhases::Covers(const OpenPhases& other) const {
  return std::all_of(other.open_.begin(), other.open_.end(),
                     [&](const Phase& phase) { return Has(phase.barrier); });
}

void OpenPhases::Merge(const OpenPhases& other) {
  for (const Phase& phase : other.open_) Open(phase);
}

void OpenPhases::Pass(const Stmt& leaf, const PhaseUses& uses, int64_t block_threads,
                      const std::optional<op::ThreadRange>& group) {
  const auto* wait = leaf.as<ir::WaitParityNode>();
  bool of_program = wait != nullptr && wait->scope_kind() != ir::Scope::kCluster &&
                    op::IsProgramBarrier(wait->barrier());
  if (of_program && group && group->count > 1) Open({wait->barrier(), *group});
  if (const auto* barrier = leaf.as<ir::BarrierNode>()) {
    Pass(barrier, block_threads);
  } else if (ir::HasCall(leaf, ir::Builtin::kBlockVote)) {
    PassBarrier({0, block_threads});
  }
  for (const Buffer& barrier : uses.waited) {
    Open({barrier, *op::ThreadsWaitingOn(barrier)});
  }
}

void OpenPhases::Pass(const ir::BarrierNode* barrier, int64_t block_threads) {
  if (barrier->Part() != ir::BarrierPart::kWhole) return;
  if (barrier->Kind() == ir::BarrierKind::kWarp) {
    std::erase_if(open_, [](const Phase& phase) { return phase.waiting.count <= kWarp; });
  } else if (auto threads = op::ThreadsMeetingAt(barrier, block_threads)) {
    PassBarrier(*threads);
  }
}

void OpenPhases::PassBarrier(const op::ThreadRange& threads) {
  std::erase_if(open_, [&](const Phase& phase) {
    const op::ThreadRange& waiting = phase.waiting;
    return threads.begin <= waiting.begin &&
           waiting.begin + waiting.count <= threads.begin + threads.count;
  });
}

OpenPhases OpenPhases::AfterSides(const Stmt& first, const OpenPhases& after_first,
                                  const Stmt& second, const OpenPhases& after_second) {
  OpenPhases result;
  for (const Phase& phase : after_first.open_) {
    if (after_second.Has(phase.barrier)) result.Open(phase);
  }
  auto keep = [&](const Stmt& side, const OpenPhases& after) {
    if (!side.defined()) return;
    for (const Buffer& barrier : PhasesUsedIn(side).waited) {
      const Phase* phase = after.Find(barrier);
      if (phase != nullptr) result.Open(*phase);
    }
  };
  keep(first, after_first);
  keep(second, after_second);
  return result;
}

}  // namespace tilelang::sync
