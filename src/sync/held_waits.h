// Waits for engines that stand no earlier than what depends on them.
#ifndef TILELANG_SYNC_HELD_WAITS_H_
#define TILELANG_SYNC_HELD_WAITS_H_

#include <functional>
#include <vector>

#include "analysis/memory_access.h"
#include "ir/stmt.h"
#include "sync/pending_accesses.h"

namespace tilelang::sync {

// Lowering writes waits right after what they wait for; they may stand anywhere before the first
// statement that touches the same memory or registers, within one sequence. Those are
//   - on an mbarrier, of all threads that issue work to an engine together: the wait itself, the
//     step to the next phase, and for the tensor core the fence after it;
//   - of warpgroups for a group of wgmma: the wait, and what holds the registers of its results
//     and operands. Groups complete in order: a wait leaves those in flight that came later.
class HeldWaits {
 public:
  // How many statements from stmts[first] on are such a wait; 0: none.
  static size_t LengthAt(const ir::Array<ir::Stmt>& stmts, size_t first);

  bool IsEmpty() const { return waits_.empty(); }
  // Takes a wait from the program: `count` statements from stmts[first] on. Pending accesses say
  // what it waits for. False: for nothing known, it has to stay.
  bool Hold(const ir::Array<ir::Stmt>& stmts, size_t first, size_t count,
            const PendingAccesses& pending);
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
  struct Wait {
    std::vector<ir::Stmt> stmts;
    ir::Buffer barrier;                      // null: for a group of wgmma
    std::vector<analysis::AccessPtr> work;   // of the engine
    std::vector<ir::Buffer> registers = {};  // of wgmma
    int group = 0;                           // the last that is complete then, of those committed

    bool IsForWgmma() const { return !barrier.defined(); }
  };

  bool HoldWgmma(const ir::Array<ir::Stmt>& stmts, size_t first, size_t count,
                 const PendingAccesses& pending);
  std::vector<ir::Stmt> TakeIf(const std::function<bool(const Wait&)>& due);
  // One wait for all of these, which are for wgmma.
  std::vector<ir::Stmt> Together(const std::vector<Wait>& waits) const;

  std::vector<Wait> waits_;
  int committed_ = 0;  // groups of wgmma in the sequence so far
};

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_HELD_WAITS_H_
