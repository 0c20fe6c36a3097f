// Waits for engines that stand no earlier than what depends on them.
#ifndef TILELANG_SYNC_HELD_WAITS_H_
#define TILELANG_SYNC_HELD_WAITS_H_

#include <functional>
#include <vector>

#include "analysis/memory_access.h"
#include "ir/stmt.h"
#include "sync/pending_accesses.h"

namespace tilelang::sync {

// All threads that issue work to an engine together wait for it on an mbarrier of theirs: the wait
// itself, the step to the next phase, and for the tensor core the fence after it. Lowering writes
// them right after what they wait for; they may stand anywhere before the first statement that
// touches the same memory, within one sequence.
class HeldWaits {
 public:
  // How many statements from stmts[first] on are such a wait; 0: none.
  static size_t LengthAt(const ir::Array<ir::Stmt>& stmts, size_t first);

  bool IsEmpty() const { return waits_.empty(); }
  // Takes a wait from the program: `count` statements from stmts[first] on. Pending accesses say
  // what it waits for. False: for nothing known, it has to stay.
  bool Hold(const ir::Array<ir::Stmt>& stmts, size_t first, size_t count,
            const PendingAccesses& pending);
  // Those that must stand before `s`, which makes these accesses, in the order they were held.
  std::vector<ir::Stmt> TakeBefore(const ir::Stmt& s,
                                   const std::vector<analysis::AccessPtr>& accesses);
  std::vector<ir::Stmt> TakeAll();

 private:
  struct Wait {
    std::vector<ir::Stmt> stmts;
    ir::Buffer barrier;
    std::vector<analysis::AccessPtr> work;  // of the engine
  };

  std::vector<ir::Stmt> TakeIf(const std::function<bool(const Wait&)>& due);

  std::vector<Wait> waits_;
};

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_HELD_WAITS_H_
