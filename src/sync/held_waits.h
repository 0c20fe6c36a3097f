// Waits for engines that stand no earlier than what depends on them.
#ifndef TILELANG_SYNC_HELD_WAITS_H_
#define TILELANG_SYNC_HELD_WAITS_H_

#include <functional>
#include <vector>

#include "analysis/memory_access.h"
#include "ir/async.h"
#include "sync/pending_accesses.h"

namespace tilelang::sync {

// A wait may stand anywhere from what issues the work to the first statement that touches the same
// memory or registers, within one sequence; it stands there. Groups of wgmma complete in order: a
// wait for one leaves those in flight that came later.
class HeldWaits {
 public:
  bool IsEmpty() const { return waits_.empty(); }
  // Takes a wait from where it stands. Pending accesses say what the work touches. False: nothing
  // known, the wait has to stay.
  bool Hold(const ir::Wait& wait, const PendingAccesses& pending);
  // A statement of the sequence ends a group of wgmma.
  void PassCommit() { ++committed_; }
  // What a statement needs: its accesses, among them the tiles that it hands over, and its parts,
  // which use registers.
  struct Use {
    ir::Stmt stmt;
    std::vector<analysis::AccessPtr> accesses;
    std::vector<ir::Stmt> parts;
  };
  // Those that must stand before it, in the order they were held.
  std::vector<ir::Stmt> TakeBefore(const Use& use);
  std::vector<ir::Stmt> TakeAll();

 private:
  struct Held {
    ir::Wait wait;
    std::vector<analysis::AccessPtr> work;  // of the engine
    int group = 0;  // of wgmma: the last that is complete then, of those committed
  };

  // What a wait is for; group: of wgmma, the last that is complete then.
  std::vector<analysis::AccessPtr> WorkOf(const ir::Wait& wait, int group,
                                          const PendingAccesses& pending) const;
  std::vector<ir::Stmt> TakeIf(const std::function<bool(const Held&)>& due);
  // One wait for all of these, which are for wgmma.
  ir::Stmt Together(const std::vector<Held>& waits) const;

  std::vector<Held> waits_;
  int committed_ = 0;  // groups of wgmma in the sequence so far
};

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_HELD_WAITS_H_
