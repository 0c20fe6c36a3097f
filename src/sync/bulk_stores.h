// Stores by TMA: those who issue them wait for them, where what comes next needs it.
#ifndef TILELANG_SYNC_BULK_STORES_H_
#define TILELANG_SYNC_BULK_STORES_H_

#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/memory_access.h"
#include "analysis/thread_set.h"
#include "ir/stmt.h"
#include "sync/pending_accesses.h"

namespace tilelang::sync {

// A thread knows of its own stores alone. Who issues them is seen from the branches that lead to
// the calls; the same branches lead to the wait, which is free where nothing is in flight. A tile
// is stored while its threads go on, up to the first statement that
//   - writes bytes of shared memory that the store reads,
//   - stores to elements of the tensor that it writes,
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

  BulkStores(const ir::Stmt& kernel, const analysis::BlockThreads& threads)
      : kernel_(kernel), threads_(threads), team_{kernel} {}

  // From here on statements belong to this team; returns the one before.
  Team Enter(Team team) { return std::exchange(team_, std::move(team)); }

  // Where a statement does nothing but issue stores, by threads that its branches choose by their
  // index: how they wait for them. Null: it does something else, or waits itself.
  const ir::ffi::Object* IssuerOf(const ir::Stmt& s);
  // The issuer that waits in a statement, which does nothing else; or null.
  const ir::ffi::Object* WaiterOf(const ir::Stmt& s) const;

  // Whether statement number i of a sequence belongs to a group of stores, or to its wait, that the
  // next one goes on with.
  bool GoesOn(const ir::SeqNode* seq, size_t i);

  // How an issuer waits: until its stores have read shared memory, or have written the tensors.
  struct Wait {
    const ir::ffi::Object* issuer;
    bool written;
  };
  ir::Stmt StatementOf(const Wait& wait, const ir::Span& span) const;
  // The waits for pending stores that must be complete before statement `s`, which makes these
  // accesses.
  std::vector<Wait> Before(const ir::Stmt& s, const std::vector<analysis::AccessPtr>& accesses,
                           const PendingAccesses& state);
  // Those for all that are pending.
  static std::vector<Wait> OfAll(const PendingAccesses& state);

 private:
  bool IssuesAlone(const ir::Stmt& s) const;
  bool IsSharedWithOthers(const ir::Buffer& tile);
  // Whether a statement lets others change the tile.
  bool HandsOver(const ir::Stmt& s, const ir::Buffer& tile);

  ir::Stmt kernel_;
  const analysis::BlockThreads& threads_;
  Team team_;
  // The branches that lead to a wait.
  std::vector<ir::Stmt> issuers_;
};

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_BULK_STORES_H_
