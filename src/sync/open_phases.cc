#include "sync/open_phases.h"

#include <algorithm>

#include "analysis/call_order.h"
#include "ir/visitor.h"
#include "op/issue.h"
#include "target/warp.h"

namespace tilelang::sync {

using analysis::CallOrder;
using ir::Buffer;
using ir::Stmt;

namespace {

bool Contains(const BarrierList& list, const Buffer& barrier) {
  return std::any_of(list.begin(), list.end(),
                     [&](const Buffer& known) { return known.same_as(barrier); });
}

void Add(const Buffer& barrier, BarrierList* list) {
  if (!Contains(*list, barrier)) list->push_back(barrier);
}

}  // namespace

BarrierList PhaseUses::BegunAlone() const {
  BarrierList result;
  for (const Buffer& barrier : begun) {
    if (!Contains(waited, barrier)) result.push_back(barrier);
  }
  return result;
}

PhaseUses PhasesUsedIn(const Stmt& s) {
  PhaseUses uses;
  auto wait_for = [&](const ir::Completion& completion) {
    const Buffer& barrier = completion->barrier;
    if (!barrier.defined() || op::ThreadsWaitingOn(barrier)->count == 1) return;
    Add(barrier, &uses.waited);
  };
  ir::WalkStmts(s, [&](const Stmt& part) {
    // What is issued in the statement is waited for in it, wherever that will be.
    const auto* issue = part.as<ir::IssueNode>();
    if (issue != nullptr && !issue->awaited) wait_for(issue->completion);
    if (const auto* wait = part.as<ir::WaitNode>()) wait_for(wait->completion);
    return true;
  });
  ir::WalkExprs(s, [&](const ir::Expr& e) {
    const auto* call = e.as<ir::CallNode>();
    if (call == nullptr || call->name == "mbarrier_init") return true;
    for (const ir::Expr& arg : call->args) {
      const auto* address = arg.as<ir::CallNode>();
      if (address == nullptr || address->name != "address_of") continue;
      const Buffer& barrier = address->args[0].as<ir::LoadNode>()->buffer;
      auto waiting = op::ThreadsWaitingOn(barrier);
      // A thread that is alone issues after it has waited.
      if (!waiting || waiting->count == 1) continue;
      Add(barrier, call->name == "mbarrier_wait_parity" ? &uses.waited : &uses.begun);
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
  ir::WalkExprs(leaf, [&](const ir::Expr& e) {
    const auto* call = e.as<ir::CallNode>();
    if (call == nullptr) return true;
    CallOrder order = analysis::OrderOf(call);
    if (order == CallOrder::kWarp) {
      std::erase_if(open_, [](const Phase& phase) { return phase.waiting.count <= kWarp; });
    }
    if (order == CallOrder::kWait && group && group->count > 1) {
      Buffer barrier = analysis::MbarrierOf(call);
      if (barrier.defined() && op::IsProgramBarrier(barrier)) Open({barrier, *group});
    }
    if (order != CallOrder::kBlock) return true;
    if (call->name == "sync_range") {
      PassBarrier({*ir::AsInt(call->args[0]), *ir::AsInt(call->args[1])});
    } else if (call->name != "sync_threads" || call->args.empty() ||
               ir::AsInt(call->args[1]) == block_threads) {
      PassBarrier({0, block_threads});
    }
    return true;
  });
  for (const Buffer& barrier : uses.waited) {
    Open({barrier, *op::ThreadsWaitingOn(barrier)});
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
