// Accesses of memory that later ones may have to wait for.
#ifndef TILELANG_SYNC_PENDING_ACCESSES_H_
#define TILELANG_SYNC_PENDING_ACCESSES_H_

#include <functional>
#include <limits>
#include <vector>

#include "analysis/conflict_table.h"
#include "analysis/memory_access.h"
#include "analysis/thread_set.h"
#include "sync/open_phases.h"
#include "sync/tensor_accesses.h"

namespace tilelang::sync {

// One access and how far it is ordered before what comes. An access by threads is ordered by a
// barrier; a store among them then still lacks its fence.proxy.async, if an engine uses the bytes.
// What an engine does is ordered for the threads that have waited for it, and by a barrier
// of these for all.
struct PendingAccess {
  analysis::AccessPtr access;
  // In an earlier iteration of a loop: of the outermost of those, how many are around it.
  static constexpr int kNotCarried = std::numeric_limits<int>::max();
  int carried_by = kNotCarried;
  bool by_role = false;  // in a branch that orders itself by mbarriers

  // By threads: the first barrier after it, and whether a fence came before that barrier.
  const ir::ffi::Object* barrier = nullptr;
  bool fenced = false;
  // The first barrier after it, or after who waited for the engine, at which each warpgroup waited
  // for itself: threads of one are ordered.
  const ir::ffi::Object* warpgroup_barrier = nullptr;

  // By an engine: complete for `known` and for the thread that issued it.
  bool complete = false;
  analysis::ThreadSet known = {};
  // By wgmma, or by a store of TMA: how many groups its issuer has committed since, at least, its
  // own among them. What wgmma does is complete for its warpgroup alone.
  int groups = 0;

  bool operator==(const PendingAccess& other) const;
  bool IsStoreByThreads() const;
  // By an engine that completes on an mbarrier or in a bulk group, and nobody has waited yet.
  bool WaitsForEngine() const;
  // By stores of TMA.
  bool WaitsForStore() const { return WaitsForEngine() && access->issuer; }
};

// What is pending at one point of the program, on any path to it.
class PendingAccesses {
 public:
  void Add(const PendingAccess& access);
  void Merge(const PendingAccesses& other);
  bool Covers(const PendingAccesses& other) const;
  // To the next iteration of a loop inside `depth` others; and out of it.
  void Carry(int depth);
  void LeaveLoop(int depth);
  OpenPhases& phases() { return phases_; }
  const OpenPhases& phases() const { return phases_; }
  TensorAccesses& tensor() { return tensor_; }
  // Of whatever leads to this point.
  const std::vector<PendingAccess>& All() const { return all_; }

  // The threads that all of this is about wait for each other.
  void PassBarrier(const ir::ffi::Object* barrier);
  // Those of each warpgroup do.
  void PassWarpgroupBarrier(const ir::ffi::Object* barrier);
  // They execute fence.proxy.async.
  void PassFence();
  // They have waited for the engines: for what nobody has waited for yet, unless that completes on
  // other mbarriers. What is complete for other threads was waited for on other mbarriers.
  void PassWait(const ir::Buffer& barrier);
  // One thread commits its stores by TMA as a group.
  void PassStoreCommit(const op::ThreadRange& issuer);
  // It has waited until `left` of its groups may be in flight; waiters: itself, where it is known.
  void PassStoreWait(const op::ThreadRange& issuer, int left, const analysis::ThreadSet& waiters);
  // Some of them have: on mbarriers, for stores.
  void PassWait(const analysis::ThreadSet& waiters, bool on_mbarrier, bool for_stores);
  // Each warpgroup commits its wgmma as a group, and waits until `pending` groups are left.
  void PassWgmmaCommit();
  void PassWgmmaWait(int pending, const analysis::BlockThreads& threads);

  // Removes the stores that an engine's access needs fenced before a barrier which they have
  // passed; `require` is told each such barrier.
  void TakeFences(const analysis::AccessPtr& access, analysis::ConflictTable* conflicts,
                  const std::function<void(const ir::ffi::Object*)>& require);

 private:
  std::vector<PendingAccess> all_;
  OpenPhases phases_;
  TensorAccesses tensor_;
};

// Whether one thread issues for both groups: the elected one of their first warp, or a thread that
// is alone.
bool SameIssuer(const op::ThreadRange& a, const op::ThreadRange& b);

// The threads that know that wgmma has read its operands once they have waited for their own: one
// warpgroup does not know of another.
analysis::ThreadSet KnownToWarpgroup(const analysis::MemoryAccess& access,
                                     const analysis::BlockThreads& threads);

// Whether threads must synchronize between the two.
bool NeedsBarrier(const PendingAccess& earlier, const analysis::AccessPtr& later,
                  const analysis::BlockThreads& threads, analysis::ConflictTable* conflicts);

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_PENDING_ACCESSES_H_
