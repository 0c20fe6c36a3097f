// Places waits for TMA stores: the issuing thread waits before the first statement that needs it.
#ifndef TILELANG_SYNC_BULK_STORES_H_
#define TILELANG_SYNC_BULK_STORES_H_

#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/loop_turns.h"
#include "analysis/memory_access.h"
#include "analysis/thread_set.h"
#include "ir/async.h"
#include "sync/pending_accesses.h"

namespace tilelang::sync {

// A thread can wait only for its own bulk groups, and the wait is free if none is in flight. Groups
// complete in order, so a wait leaves groups in flight that the thread committed later on every
// path. In a ring of n slots, these are all slots except the one that is filled again, also where
// the iteration chooses the slot (s[i % n]). While a tile is stored, its threads go on until the
// first statement that
//   - writes bytes of shared memory that the store reads,
//   - stores to elements of the tensor that the store writes (iterations of a loop that store to
//     separate elements do not, see analysis::LoopTurns),
//   - hands over a tile that the store touches, by a barrier of the program, or
//   - has an effect that only the program knows,
// and at most until the end of the statements that these threads execute alone.
class BulkStores {
 public:
  // Statements that a set of threads executes alone, and whether other threads use each tile as
  // well.
  struct Region {
    ir::Stmt body;
    std::unordered_map<const ir::ffi::Object*, bool> shared = {};
  };

  BulkStores(const ir::KernelLaunchNode* launch, const analysis::BlockThreads& threads)
      : launch_(launch), threads_(threads), region_{launch->body} {}

  // Begins the statements of another region; returns the current region.
  Region Enter(Region region) { return std::exchange(region_, std::move(region)); }

  // Begins the body of a loop, which ends at the matching call of LeaveLoop.
  void EnterLoop(const ir::Stmt& loop) { loops_.emplace_back(loop, launch_); }
  void LeaveLoop() { loops_.pop_back(); }

  // Returns whether a statement only issues stores, by threads that its branches select by their
  // index. The threads around the statement then wait for the stores.
  bool IssuesAlone(const ir::Stmt& s) const;

  // Returns the waits for pending stores that must be complete before statement `s`, which makes
  // these accesses.
  std::vector<ir::Wait> Before(const ir::Stmt& s, const std::vector<analysis::AccessPtr>& accesses,
                               const PendingAccesses& state);
  // Returns the waits for all pending stores.
  static std::vector<ir::Wait> OfAll(const PendingAccesses& state, const ir::Span& span);

 private:
  // Returns whether the store of an earlier iteration writes other elements.
  bool IsApart(const PendingAccess& store, const analysis::MemoryAccess& access) const;
  // Returns whether the access may touch what the store reads: another slot of a ring is apart.
  bool MayMeet(const PendingAccess& store, const analysis::MemoryAccess& access) const;
  bool IsUsedByOtherThreads(const ir::Buffer& tile);
  // Returns whether a statement allows other threads to change the tile.
  bool HandsOver(const ir::Stmt& s, const ir::Buffer& tile);

  const ir::KernelLaunchNode* launch_;
  const analysis::BlockThreads& threads_;
  Region region_;
  std::vector<analysis::LoopTurns> loops_;  // outermost first
};

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_BULK_STORES_H_
