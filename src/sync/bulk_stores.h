// Stores by TMA: the thread that issues them waits for them, where what comes next needs it.
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

// A thread knows of its own bulk groups alone; to wait is free where nothing is in flight. Groups
// complete in order, so it leaves those in flight that it committed later on every path: of a ring
// of n slots all but the one that is filled again. A tile is stored while its threads go on, up to
// the first statement that
//   - writes bytes of shared memory that the store reads,
//   - stores to elements of the tensor that it writes: turns of a loop that store to places of
//     their own (analysis::LoopTurns) do not,
//   - hands over to others, by a barrier of the program, a tile that they touch as well, or
//   - does what only the program knows;
// and at the end of what its threads execute alone.
class BulkStores {
 public:
  // What some threads of a kernel execute alone, and which tiles others use as well.
  struct Team {
    ir::Stmt body;
    std::unordered_map<const ir::ffi::Object*, bool> shared = {};
  };

  BulkStores(const ir::KernelLaunchNode* launch, const analysis::BlockThreads& threads)
      : launch_(launch), threads_(threads), team_{launch->body} {}

  // From here on statements belong to this team; returns the one before.
  Team Enter(Team team) { return std::exchange(team_, std::move(team)); }

  // The statements up to the matching call of LeaveLoop are those of the loop's body.
  void EnterLoop(const ir::Stmt& loop) { loops_.emplace_back(loop, launch_); }
  void LeaveLoop() { loops_.pop_back(); }

  // Whether a statement does nothing but issue stores, by threads that its branches choose by their
  // index: those around it wait.
  bool IssuesAlone(const ir::Stmt& s) const;

  // The waits for pending stores that must be complete before statement `s`, which makes these
  // accesses.
  std::vector<ir::Wait> Before(const ir::Stmt& s, const std::vector<analysis::AccessPtr>& accesses,
                               const PendingAccesses& state);
  // Those for all that are pending.
  static std::vector<ir::Wait> OfAll(const PendingAccesses& state, const ir::Span& span);

 private:
  // Whether the store in an earlier turn writes other elements.
  bool IsApart(const PendingAccess& store, const analysis::MemoryAccess& access) const;
  bool IsSharedWithOthers(const ir::Buffer& tile);
  // Whether a statement lets others change the tile.
  bool HandsOver(const ir::Stmt& s, const ir::Buffer& tile);

  const ir::KernelLaunchNode* launch_;
  const analysis::BlockThreads& threads_;
  Team team_;
  std::vector<analysis::LoopTurns> loops_;  // outermost first
};

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_BULK_STORES_H_
