#include "sync/handovers.h"

#include <algorithm>

#include "op/issue.h"

namespace tilelang::sync {

using analysis::AccessPtr;
using analysis::CallOrder;
using analysis::ThreadSet;
using ir::Buffer;
using ir::Proxy;

namespace {

// Loads by TMA for the threads themselves hand over nothing of theirs.
bool Arrives(CallOrder order, const Buffer& barrier) {
  return order == CallOrder::kArrive || order == CallOrder::kCommit ||
         (order == CallOrder::kExpect && !op::ThreadsWaitingOn(barrier));
}

}  // namespace

bool WaitsForPhase(CallOrder order) {
  return order == CallOrder::kWait || order == CallOrder::kWaitCluster || order == CallOrder::kTest;
}

void Handovers::Add(const Event& event, std::vector<Event>* events) {
  if (std::find(events->begin(), events->end(), event) == events->end()) events->push_back(event);
}

void Handovers::AddAccess(const AccessPtr& access) {
  if (std::find(accesses_.begin(), accesses_.end(), access) == accesses_.end()) {
    accesses_.push_back(access);
  }
}

void Handovers::AddCall(const ir::CallNode* call, const ThreadSet& by) {
  CallOrder order = analysis::OrderOf(call);
  Buffer barrier = analysis::MbarrierOf(call);
  if (WaitsForPhase(order)) AddWait(barrier, by);
  if (!Arrives(order, barrier)) return;
  Add({barrier, by, order == CallOrder::kCommit ? Proxy::kAsync : Proxy::kGeneric}, &arrivals_);
}

void Handovers::AddWait(const Buffer& barrier, const ThreadSet& by) {
  Add({barrier, by, Proxy::kGeneric}, &waits_);
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
        bool learned = !own && wait.by.Overlaps(arrival.by) &&
                       std::none_of(barriers.begin(), barriers.end(),
                                    [&](const Buffer& b) { return b.same_as(wait.barrier); });
        if (learned) barriers.push_back(wait.barrier);
      }
    }
  }
  return result;
}

}  // namespace tilelang::sync
