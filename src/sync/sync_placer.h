// Walks a kernel in the order in which its threads run, and places all waits, barriers and fences
// in this one walk. One state, PendingAccesses, holds everything that is pending at a point of the
// program: accesses, open phases, accesses of tensor memory.
#ifndef TILELANG_SYNC_SYNC_PLACER_H_
#define TILELANG_SYNC_SYNC_PLACER_H_

#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "analysis/access_table.h"
#include "analysis/conflict_table.h"
#include "analysis/thread_set.h"
#include "analysis/uniformity.h"
#include "sync/bulk_stores.h"
#include "sync/pending_accesses.h"
#include "sync/proxy_fences.h"
#include "sync/tensor_order.h"
#include "sync/work_in_flight.h"
#include "target/warp.h"

namespace tilelang::sync {

// The threads that execute a statement and would arrive at a barrier before it.
struct ExecutingThreads {
  analysis::ThreadSet threads;
  bool arrives = true;  // all threads arrive; false: some, which are known only at run time

  // Returns the threads as a range that one barrier can synchronize, if there is such a range.
  std::optional<op::ThreadRange> Group() const {
    if (!arrives) return std::nullopt;
    auto range = threads.AsRange();
    bool warps = range && range->begin % kWarp == 0 && range->count % kWarp == 0;
    return warps || threads.IsWholeBlock() ? range : std::nullopt;
  }
};

// Returns the pending access that a thread or an engine leaves.
PendingAccess Pending(const analysis::AccessPtr& access);

// Returns one statement with `stmts` before `s`; the other functions return its two parts.
ir::Stmt Before(std::vector<ir::Stmt> stmts, const ir::Stmt& s);
std::vector<ir::Stmt> BarriersOf(const ir::Stmt& s);
ir::Stmt WithoutBarriers(const ir::Stmt& s);
// Returns whether the parts of a statement, or of the operation that it issues, belong to the
// sequence around it.
bool IsSequence(const ir::Stmt& s);

class SyncPlacer {
 public:
  SyncPlacer(const ir::KernelLaunchNode* launch, bool between_statements)
      : launch_(launch),
        between_statements_(between_statements),
        uniformity_(launch),
        threads_(uniformity_.threads()),
        context_(analysis::ContextOf(launch)),
        table_(PlacesOf(launch)),
        fences_(launch->body, table_.offsets()),
        stores_(launch, threads_),
        tensor_(launch->body, threads_, context_, &table_, &conflicts_),
        executing_{threads_.All()},
        most_copy_groups_(MostCopyGroups(launch->body)) {}

  ir::Stmt Run() {
    PendingAccesses state;
    return fences_.Place(ProcessAlone(launch_->body, &state));
  }
  // The tensors whose accesses got a barrier.
  const ir::Array<ir::Buffer>& ordered_tensors() const { return ordered_tensors_; }

 private:
  // Returns `s` with barriers. Updates `state` from the state before `s` to the state after it.
  ir::Stmt Process(const ir::Stmt& s, PendingAccesses* state);
  ir::Stmt ProcessBlock(const ir::Stmt& s, PendingAccesses* state);
  ir::Stmt ProcessAlone(const ir::Stmt& s, PendingAccesses* state);
  ir::Stmt ProcessSeq(const ir::SeqNode* op, PendingAccesses* state);
  ir::Stmt ProcessIf(const ir::IfNode* op, PendingAccesses* state);
  ir::Stmt ProcessBranch(const ir::IfNode* op, PendingAccesses* state);
  ir::Stmt ProcessLoop(const ir::Stmt& loop, PendingAccesses* state);
  ir::Stmt ProcessDivergentLoop(const ir::Stmt& loop, PendingAccesses* state);
  ir::Stmt ProcessBody(const ir::Stmt& loop, PendingAccesses* carried);
  ir::Stmt ProcessIteration(const ir::Stmt& loop, PendingAccesses* state);
  ir::Stmt ProcessIssue(const ir::IssueNode* op, PendingAccesses* state);
  std::vector<ir::Stmt> Begin(const ir::Stmt& issue, PendingAccesses* state);
  ir::Stmt ProcessBranchBody(const ir::Stmt& body, const ir::Expr& condition,
                             const ExecutingThreads& by, PendingAccesses* inside);
  ir::Stmt Leaf(const ir::Stmt& s, PendingAccesses* state);
  // Returns a store as two statements, one of which computes the value, if threads read elements
  // that other threads store: a barrier must stand between them. Null otherwise.
  ir::Stmt DivideUpdate(const ir::Stmt& s) const;
  std::vector<ir::Stmt> Leaves(const std::vector<ir::Stmt>& stmts, PendingAccesses* state);

  // Returns the waits for stores and the barriers to insert before a statement: its accesses
  // conflict with pending accesses, or it begins phases that are open.
  std::vector<ir::Stmt> BarriersBefore(const ir::Stmt& s,
                                       const std::vector<analysis::AccessPtr>& accesses,
                                       const BarrierList& begun, bool role, PendingAccesses* state);
  ir::Stmt BarrierBetween(const ir::Span& span, const std::vector<analysis::AccessPtr>& accesses,
                          bool role, PendingAccesses* state);
  // Returns whether threads of different warpgroups must synchronize between the two accesses. If
  // each warpgroup fills and stores its own part of a tile, they need not; in all other cases all
  // threads wait together.
  bool ConcernsWarpgroups(const PendingAccess& earlier, const analysis::AccessPtr& later);
  // Returns whether threads that cannot wait for each other update elements at indices that they
  // read from tensors, each element by one thread as far as the program says.
  bool UpdatesInPlace(const PendingAccess& earlier, const analysis::AccessPtr& later) const;
  op::ThreadRange GroupAt(const ir::Span& span, const ir::Buffer& conflict) const;
  bool Waits(const PendingAccess& earlier, const analysis::AccessPtr& later, bool role);
  // Returns the accesses of a statement, and of the threads to which it hands over tiles.
  std::vector<analysis::AccessPtr> NeededBy(const ir::Stmt& s);
  // Returns the first and the last statement with a barrier of the program. Between the two, only
  // the program orders uses of tensor memory.
  std::pair<size_t, size_t> RangeOfProgram(const ir::SeqNode* op) const;
  // Returns the accesses of tensor memory in branches among the statements [first, last].
  std::vector<analysis::AccessPtr> OrderedByProgram(const ir::SeqNode* op, size_t first,
                                                    size_t last);
  void RecordWhole(const ir::Stmt& s, bool role, bool ordered, PendingAccesses* state);
  // Returns the statements by which the executing threads wait for their stores.
  std::vector<ir::Stmt> WaitForStores(const std::vector<ir::Wait>& waits, PendingAccesses* state);
  void PassStoreWait(const ir::WaitNode* wait, PendingAccesses* state);
  // Appends the waits and fences that accesses of tensor memory need before a statement without
  // control flow.
  void AppendTensorOrder(const ir::Stmt& s, PendingAccesses* state, std::vector<ir::Stmt>* stmts);
  // Returns whether a fence::after may stand before a branch. Threads that do not take the branch
  // may execute it as well if they belong to the same warp or take the branch another time.
  bool Acquires(const ir::Expr& condition) const;
  // Returns the executing threads that may not take a branch.
  analysis::ThreadSet ThreadsOfElse(const analysis::ThreadSelection& chosen) const;
  static bool WaitsNext(const ir::SeqNode* op, size_t i);
  // Returns one more than the largest number of groups of cp.async that a wait leaves in flight.
  static int MostCopyGroups(const ir::Stmt& body);
  // Updates the groups of cp.async after a statement that commits them or waits for them.
  void PassCopyGroups(const ir::Stmt& s, PendingAccesses* state) const;
  static ir::Map<ir::Buffer, int64_t> PlacesOf(const ir::KernelLaunchNode* launch);
  bool IsBarrier(const ir::Stmt& s) const;
  // Returns whether a statement is a barrier of exactly the executing threads.
  bool JoinsExecutingThreads(const ir::Stmt& s) const;
  // Returns whether a barrier of the block directly follows another one, so that it orders nothing.
  // All threads must be known to reach it: threads that take different branches pair their
  // barriers.
  bool IsRepeatedBarrier(const ir::Stmt& s, const std::vector<ir::Stmt>& before) const;
  // Collects the accesses of a processed statement up to the first barrier. Returns whether no
  // access can pass beyond it.
  bool Exposed(const ir::Stmt& s, std::vector<analysis::AccessPtr>* out);
  const std::vector<analysis::AccessPtr>& AccessesOf(const ir::Stmt& s) {
    return table_.Of(s, context_);
  }

  const ir::KernelLaunchNode* launch_;
  bool between_statements_;
  analysis::Uniformity uniformity_;
  const analysis::BlockThreads& threads_;
  analysis::AccessContext context_;
  analysis::AccessTable table_;
  analysis::ConflictTable conflicts_;
  ProxyFences fences_;
  BulkStores stores_;
  TensorOrder tensor_;
  ExecutingThreads executing_;
  int most_copy_groups_;
  // Says whether barriers of the program order the current statements. The program is then
  // responsible for them, and threads of one branch may wait for threads of another one.
  bool program_orders_ = false;
  WorkInFlight in_flight_;
  int depth_ = 0;                       // loops around
  std::vector<PendingAccesses> exits_;  // at the Breaks and Continues of the loops around
  std::unordered_set<const ir::ffi::Object*> divergent_;  // statements treated as one
  int inserted_ = 0;                                      // barriers, so far
  ir::Array<ir::Buffer> ordered_tensors_;
};

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_SYNC_PLACER_H_
