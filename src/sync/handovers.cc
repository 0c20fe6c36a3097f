#include "sync/handovers.h"

#include <algorithm>
#include <iterator>

#include "ir/async.h"
#include "ir/same.h"
#include "ir/visitor.h"
#include "op/issue.h"

namespace tilelang::sync {

using analysis::AccessPtr;
using analysis::ThreadSet;
using ir::Buffer;
using ir::Proxy;
using ir::Stmt;

namespace {

// Loads by TMA for the threads themselves hand over nothing of theirs.
bool HandsOver(const ir::ArriveNode* arrive) {
  ir::ArriveKind kind = arrive->Kind();
  return kind == ir::ArriveKind::kThread || kind == ir::ArriveKind::kCommit ||
         (kind == ir::ArriveKind::kThreadExpect && !op::ThreadsWaitingOn(arrive->barrier()));
}

}  // namespace

void Handovers::Add(const Event& event, std::vector<Event>* events) {
  if (std::find(events->begin(), events->end(), event) == events->end()) events->push_back(event);
}

void Handovers::Find(const Stmt& body, const std::vector<AccessPtr>& accesses) {
  std::copy_if(accesses.begin(), accesses.end(), std::back_inserter(accesses_),
               [](const AccessPtr& access) { return access->buffer.IsTmem(); });
  AddStmt(body, threads_.All());
}

void Handovers::AddStmt(const Stmt& s, const ThreadSet& by) {
  if (const auto* seq = s.as<ir::SeqNode>()) {
    for (const Stmt& child : seq->stmts) AddStmt(child, by);
  } else if (const auto* issue = s.as<ir::IssueNode>()) {
    AddStmt(issue->body, by);
    // The threads that issue it also wait for it, at a place that is not decided yet.
    AddWait(issue->completion->barrier, by);
  } else if (const auto* branch = s.as<ir::IfNode>()) {
    analysis::ThreadSelection chosen = threads_.Select(branch->condition, by);
    AddStmt(branch->then_case, chosen.threads);
    if (!branch->else_case.defined()) return;
    AddStmt(branch->else_case, chosen.rest.empty() ? by - chosen.threads : by);
  } else if (const auto* loop = s.as<ir::ForNode>()) {
    AddStmt(loop->body, by);
  } else if (const auto* loop = s.as<ir::WhileNode>()) {
    AddStmt(loop->body, by);
  } else if (const auto* wait = s.as<ir::WaitNode>()) {
    AddWait(wait->completion->barrier, by);
  } else if (const auto* wait = s.as<ir::WaitParityNode>()) {
    AddWait(wait->barrier(), by);
  } else if (const auto* arrive = s.as<ir::ArriveNode>()) {
    if (!HandsOver(arrive)) return;
    bool commit = arrive->Kind() == ir::ArriveKind::kCommit;
    Add({arrive->barrier(), by, commit ? Proxy::kAsync : Proxy::kGeneric}, &arrivals_);
  }
}

void Handovers::AddWait(const Buffer& barrier, const ThreadSet& by) {
  if (barrier.defined()) Add({barrier, by, Proxy::kGeneric}, &waits_);
}

std::vector<AccessPtr> Handovers::To(const Buffer& barrier, const ThreadSet& waiting) const {
  bool known = std::any_of(arrivals_.begin(), arrivals_.end(),
                           [&](const Event& e) { return e.barrier.same_as(barrier); });
  // A function that only the program knows may arrive.
  if (!known && op::IsProgramBarrier(barrier)) return accesses_;
  std::vector<Buffer> barriers = {barrier};
  std::vector<AccessPtr> result;
  for (size_t i = 0; i < barriers.size(); ++i) {
    for (const Event& arrival : arrivals_) {
      if (!arrival.barrier.same_as(barriers[i])) continue;
      bool own = waiting.Contains(arrival.by);
      if (own && i > 0) continue;
      for (const AccessPtr& access : accesses_) {
        bool tells = access->proxy == arrival.proxy &&
                     threads_.Of(access->actors).Overlaps(arrival.by) &&
                     std::find(result.begin(), result.end(), access) == result.end();
        if (tells) result.push_back(access);
      }
      for (const Event& wait : waits_) {
        bool learned = !own && wait.by.Overlaps(arrival.by) && !ir::HasSame(barriers, wait.barrier);
        if (learned) barriers.push_back(wait.barrier);
      }
    }
  }
  return result;
}

}  // namespace tilelang::sync
