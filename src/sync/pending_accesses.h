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
// of these for all. The write of a cp.async is an access by threads once its thread has waited for
// its group. Until then, no barrier orders it.
struct PendingAccess {
  analysis::AccessPtr access;
  // If the access belongs to an earlier iteration of a loop: the number of loops around the
  // outermost such loop.
  static constexpr int kNotCarried = std::numeric_limits<int>::max();
  int carried_by = kNotCarried;
  // For a TMA store of an earlier iteration of one loop: how many iterations ago it was issued;
  // kMostTurns stands for more, too.
  static constexpr int kMostTurns = 8;
  int turns = 0;
  bool by_role = false;  // in a branch that orders itself by mbarriers

  // For accesses by threads: the first barrier after the access, and whether a fence came before
  // it.
  const ir::ffi::Object* barrier = nullptr;
  bool fenced = false;
  // The first barrier after it, or after who waited for the engine, at which each warpgroup waited
  // for itself: threads of one are ordered.
  const ir::ffi::Object* warpgroup_barrier = nullptr;

  // For accesses by an engine: the access is complete for `known` and for the issuing thread.
  bool complete = false;
  analysis::ThreadSet known = {};
  // For wgmma, TMA stores and cp.async: the least number of groups that the issuer has committed
  // since then, including the group of the access. A wgmma is complete for its own warpgroup alone.
  int groups = 0;

  bool operator==(const PendingAccess& other) const;
  // Moves the access to the next iteration of a loop inside of `depth` other loops.
  void Carry(int depth);
  bool IsStoreByThreads() const;
  // Returns whether a cp.async may still write, because its thread has not waited for its group.
  bool IsCopyInFlight() const { return access->by_copy && !complete; }
  // Returns whether an engine makes the access, completes it on an mbarrier or in a bulk group, and
  // no thread has waited for it.
  bool WaitsForEngine() const;
  // Returns whether a TMA store makes the access, and no thread has waited for it.
  bool WaitsForStore() const { return WaitsForEngine() && access->issuer; }
};

// The accesses that are pending at one point of the program, on any path to it.
class PendingAccesses {
 public:
  void Add(const PendingAccess& access);
  void Merge(const PendingAccesses& other);
  bool Covers(const PendingAccesses& other) const;
  // Moves the accesses to the next iteration of a loop inside of `depth` other loops, or out of it.
  void Carry(int depth);
  void LeaveLoop(int depth);
  OpenPhases& phases() { return phases_; }
  const OpenPhases& phases() const { return phases_; }
  TensorAccesses& tensor() { return tensor_; }
  // Returns the pending accesses of all paths to this point.
  const std::vector<PendingAccess>& All() const { return all_; }

  // The threads that all of this is about wait for each other.
  void PassBarrier(const ir::ffi::Object* barrier);
  // The threads of each warpgroup wait for each other.
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
  // Each thread commits its cp.async as a group, and waits until `left` groups are left. No wait of
  // the kernel leaves `most` groups.
  void PassCopyCommit(int most);
  void PassCopyWait(int64_t left);
  // The copies complete on an mbarrier.
  void PassCopyArrival();
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

// Returns whether one thread issues for both groups: the elected thread of their first warp, or a
// thread that is alone.
bool SameIssuer(const op::ThreadRange& a, const op::ThreadRange& b);

// The threads that know that wgmma has read its operands once they have waited for their own: one
// warpgroup does not know of another.
analysis::ThreadSet KnownToWarpgroup(const analysis::MemoryAccess& access,
                                     const analysis::BlockThreads& threads);

// Returns whether threads must synchronize between the two accesses.
bool NeedsBarrier(const PendingAccess& earlier, const analysis::AccessPtr& later,
                  const analysis::BlockThreads& threads, analysis::ConflictTable* conflicts);

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_PENDING_ACCESSES_H_
