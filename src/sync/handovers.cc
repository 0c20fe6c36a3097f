#include "sync/handovers.h"

#include <algorithm>
#include <string_view>

#include "analysis/sync_calls.h"
#include "op/issue.h"

namespace tilelang::sync {

using analysis::AccessPtr;
using analysis::ThreadSet;
using ir::Buffer;
using ir::Proxy;

namespace {

std::string_view BaseName(const ir::CallNode* call) {
  std::string_view name(call->name.data(), call->name.size());
  return name.starts_with("tl::") ? name.substr(4) : name;
}

bool Commits(const ir::CallNode* call) { return BaseName(call).starts_with("tcgen05_commit"); }

}  // namespace

bool WaitsForPhase(const ir::CallNode* call) {
  std::string_view name = BaseName(call);
  return name.starts_with("mbarrier_wait") || name.starts_with("mbarrier_try_wait");
}

bool ArrivesOnMbarrier(const ir::CallNode* call) {
  if (call->name == "mbarrier_arrive" || Commits(call)) return true;
  // Loads by TMA for the threads themselves hand over nothing of theirs.
  return call->name == "mbarrier_arrive_expect_tx" &&
         !op::ThreadsWaitingOn(analysis::MbarrierOf(call));
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
  Buffer barrier = analysis::MbarrierOf(call);
  if (WaitsForPhase(call)) AddWait(barrier, by);
  if (!ArrivesOnMbarrier(call)) return;
  Add({barrier, by, Commits(call) ? Proxy::kAsync : Proxy::kGeneric}, &arrivals_);
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
