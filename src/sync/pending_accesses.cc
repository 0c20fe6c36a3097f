#include "sync/pending_accesses.h"

#include <algorithm>

#include "op/wgmma.h"
#include "target/warp.h"

namespace tilelang::sync {

using ir::Proxy;

namespace {

constexpr int kMostGroups = 8;  // that a wait counts

// Compares two stores without their number of groups: the smallest number stands for all.
bool IsSameStore(const PendingAccess& a, const PendingAccess& b) {
  if (!a.access->issuer || a.access != b.access) return false;
  PendingAccess other = b;
  other.groups = a.groups;
  return a == other;
}

}  // namespace

bool PendingAccess::operator==(const PendingAccess& other) const {
  return access == other.access && carried_by == other.carried_by && turns == other.turns &&
         by_role == other.by_role && barrier == other.barrier &&
         warpgroup_barrier == other.warpgroup_barrier && fenced == other.fenced &&
         complete == other.complete && known == other.known && groups == other.groups;
}

void PendingAccess::Carry(int depth) {
  if (!WaitsForStore() || !access->place.defined()) {
    turns = 0;
  } else if (carried_by == kNotCarried || carried_by == depth) {
    turns = std::min(turns + 1, kMostTurns);
  } else {
    turns = kMostTurns;
  }
  carried_by = std::min(carried_by, depth);
}

bool PendingAccess::IsStoreByThreads() const {
  return access->write && access->proxy == Proxy::kGeneric;
}

bool PendingAccess::WaitsForEngine() const {
  return access->proxy == Proxy::kAsync && !access->by_warpgroup && !complete;
}

void PendingAccesses::Add(const PendingAccess& access) {
  for (PendingAccess& known : all_) {
    if (known == access) return;
    if (!IsSameStore(known, access)) continue;
    known.groups = std::min(known.groups, access.groups);
    return;
  }
  all_.push_back(access);
}

void PendingAccesses::Merge(const PendingAccesses& other) {
  for (const PendingAccess& access : other.all_) Add(access);
  phases_.Merge(other.phases_);
  tensor_.Merge(other.tensor_);
}

bool PendingAccesses::Covers(const PendingAccesses& other) const {
  if (!phases_.Covers(other.phases_) || !tensor_.Covers(other.tensor_)) return false;
  return std::all_of(other.all_.begin(), other.all_.end(), [&](const PendingAccess& access) {
    return std::any_of(all_.begin(), all_.end(), [&](const PendingAccess& known) {
      return known == access || (IsSameStore(known, access) && known.groups < access.groups);
    });
  });
}

void PendingAccesses::Carry(int depth) {
  PendingAccesses result;
  for (PendingAccess& access : all_) {
    access.Carry(depth);
    result.Add(access);
  }
  all_ = std::move(result.all_);
}

void PendingAccesses::LeaveLoop(int depth) {
  PendingAccesses result;
  for (PendingAccess& access : all_) {
    if (access.carried_by >= depth) {
      access.carried_by = PendingAccess::kNotCarried;
      access.turns = 0;
    }
    result.Add(access);
  }
  all_ = std::move(result.all_);
}

void PendingAccesses::PassBarrier(const ir::ffi::Object* barrier) {
  std::erase_if(all_, [](const PendingAccess& p) {
    if (p.access->proxy == Proxy::kAsync) return p.complete;
    return !p.IsCopyInFlight() && (!p.access->write || p.fenced);
  });
  for (PendingAccess& p : all_) {
    if (p.IsCopyInFlight()) continue;
    if (p.IsStoreByThreads() && p.barrier == nullptr) p.barrier = barrier;
  }
}

void PendingAccesses::PassWarpgroupBarrier(const ir::ffi::Object* barrier) {
  for (PendingAccess& p : all_) {
    bool under_way = (p.access->proxy == Proxy::kAsync && !p.complete) || p.IsCopyInFlight();
    if (!under_way && p.warpgroup_barrier == nullptr) p.warpgroup_barrier = barrier;
  }
}

void PendingAccesses::PassFence() {
  std::erase_if(all_, [](const PendingAccess& p) { return p.barrier != nullptr; });
  for (PendingAccess& p : all_) p.fenced = p.IsStoreByThreads() && !p.IsCopyInFlight();
}

void PendingAccesses::PassWait(const ir::Buffer& barrier) {
  std::erase_if(all_, [&](const PendingAccess& p) {
    const ir::Buffer& own = p.access->barrier;
    bool other = own.defined() && barrier.defined() && !own.same_as(barrier);
    return p.WaitsForEngine() && !p.access->issuer && !other;
  });
}

bool SameIssuer(const op::ThreadRange& a, const op::ThreadRange& b) {
  return a.begin == b.begin && (a.count == 1) == (b.count == 1);
}

void PendingAccesses::PassStoreCommit(const op::ThreadRange& issuer) {
  for (PendingAccess& p : all_) {
    if (!p.WaitsForStore() || !SameIssuer(*p.access->issuer, issuer)) continue;
    p.groups = std::min(p.groups + 1, kMostGroups);
  }
}

void PendingAccesses::PassStoreWait(const op::ThreadRange& issuer, int left,
                                    const analysis::ThreadSet& waiters) {
  for (PendingAccess& p : all_) {
    if (!p.WaitsForStore() || !SameIssuer(*p.access->issuer, issuer)) continue;
    if (left != 0 && p.groups <= left) continue;
    p.known = waiters;
    p.complete = true;
    p.groups = 0;
  }
}

void PendingAccesses::PassWait(const analysis::ThreadSet& waiters, bool on_mbarrier,
                               bool for_stores) {
  for (PendingAccess& p : all_) {
    if (!p.WaitsForEngine() || !(p.access->issuer ? for_stores : on_mbarrier)) continue;
    p.known = waiters;
    p.complete = true;
  }
}

void PendingAccesses::PassCopyCommit(int most) {
  for (PendingAccess& p : all_) {
    if (p.IsCopyInFlight()) p.groups = std::min(p.groups + 1, most);
  }
}

void PendingAccesses::PassCopyWait(int64_t left) {
  for (PendingAccess& p : all_) {
    if (!p.IsCopyInFlight() || p.groups <= left) continue;
    p.complete = true;
    p.groups = 0;
  }
}

void PendingAccesses::PassCopyArrival() {
  for (PendingAccess& p : all_) {
    if (!p.IsCopyInFlight()) continue;
    p.complete = true;
    p.groups = 0;
  }
}

void PendingAccesses::PassWgmmaCommit() {
  for (PendingAccess& p : all_) {
    if (p.access->by_warpgroup && !p.complete) p.groups = std::min(p.groups + 1, kMostGroups);
  }
}

void PendingAccesses::PassWgmmaWait(int pending, const analysis::BlockThreads& threads) {
  for (PendingAccess& p : all_) {
    if (!p.access->by_warpgroup || p.complete || p.groups <= pending) continue;
    p.complete = true;
    p.known = KnownToWarpgroup(*p.access, threads);
  }
}

analysis::ThreadSet KnownToWarpgroup(const analysis::MemoryAccess& access,
                                     const analysis::BlockThreads& threads) {
  bool alone = access.actors.begin % kWarpgroup == 0 && access.actors.count == kWarpgroup;
  return threads.Of(alone ? access.actors : op::ThreadRange{0, 0});
}

void PendingAccesses::TakeFences(const analysis::AccessPtr& access,
                                 analysis::ConflictTable* conflicts,
                                 const std::function<void(const ir::ffi::Object*)>& require) {
  if (access->proxy != Proxy::kAsync) return;
  std::vector<const ir::ffi::Object*> fenced;
  for (PendingAccess& p : all_) {
    bool alone = p.barrier == nullptr && p.warpgroup_barrier != nullptr && !p.fenced;
    if (p.barrier == nullptr && !(alone && p.IsStoreByThreads())) continue;
    if (!conflicts->MayConflict(p.access, access, true)) continue;
    if (alone) {
      require(p.warpgroup_barrier);
      p.fenced = true;
    } else {
      fenced.push_back(p.barrier);
    }
  }
  for (const ir::ffi::Object* barrier : fenced) require(barrier);
  std::erase_if(all_, [&](const PendingAccess& p) {
    return std::find(fenced.begin(), fenced.end(), p.barrier) != fenced.end();
  });
}

bool NeedsBarrier(const PendingAccess& earlier, const analysis::AccessPtr& later,
                  const analysis::BlockThreads& threads, analysis::ConflictTable* conflicts) {
  if (earlier.barrier != nullptr) return false;
  bool carried = earlier.carried_by != PendingAccess::kNotCarried;
  bool ordered_in_warpgroups = earlier.warpgroup_barrier != nullptr;
  if (!(ordered_in_warpgroups ? conflicts->WarpgroupsMayConflict(earlier.access, later, carried)
                              : conflicts->MayConflict(earlier.access, later, carried))) {
    return false;
  }
  if (earlier.IsCopyInFlight()) return false;
  if (earlier.access->proxy == Proxy::kGeneric) return true;
  // A barrier of threads does not complete an engine's access. Until a thread has waited for it,
  // the engines, the program, or the mbarriers of the roles order it.
  if (!earlier.complete) return false;
  return !earlier.known.Contains(threads.Of(later->actors));
}

}  // namespace tilelang::sync
