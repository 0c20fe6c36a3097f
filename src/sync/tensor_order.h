// Waits and fences between accesses of tensor memory.
#ifndef TILELANG_SYNC_TENSOR_ORDER_H_
#define TILELANG_SYNC_TENSOR_ORDER_H_

#include <unordered_set>
#include <vector>

#include "analysis/access_table.h"
#include "analysis/conflict_table.h"
#include "analysis/thread_set.h"
#include "sync/handovers.h"
#include "sync/tensor_accesses.h"

namespace tilelang::sync {

// Inserts the waits and fences that conflicting accesses need, in addition to the barriers and
// phases by which threads wait for each other and for engines:
//
//   earlier access    later access of the same cells   needs
//   tcgen05.st        tcgen05.ld of the same warp      wait::st
//   tcgen05.ld, .st   of other warps, tensor core      wait::st of stores, fence::before; then they
//                                                      synchronize; fence::after
//   tensor core       of threads, of another issuer    commit, wait for the phase; fence::after
//   of another role   any                              the wait for a barrier on which that role
//                                                      arrives; fence::after
//   tcgen05.alloc     of other warps                   as tcgen05.ld
//   any               tcgen05.dealloc                  fence::after
//
// wait::st and fence::before stand before the first synchronization after the access, fence::after
// before the first conflicting access. All of them move out of branches and loops if only accesses
// before these need them. A load also waits for stores if their registers and its own are more than
// half of a thread's.
class TensorOrder {
 public:
  enum Kind : uint8_t { kStores, kBefore, kAfter };  // wait::st; fence::
  // The branches and loops around, outermost first.
  struct Scope {
    bool acquires;
    bool needs[3] = {};  // before it, by kind
  };
  using Scopes = std::vector<Scope>;

  // Prepares the order for the body of a launch.
  TensorOrder(const ir::Stmt& body, const analysis::BlockThreads& threads,
              const analysis::AccessContext& context, analysis::AccessTable* table,
              analysis::ConflictTable* conflicts);

  // Returns the waits and fences to insert before a statement without control flow that these
  // threads execute and that makes these accesses. Updates `state` to the state after the
  // statement.
  std::vector<ir::Stmt> Before(const ir::Stmt& s, const std::vector<analysis::AccessPtr>& accesses,
                               const analysis::ThreadSet& executing, TensorAccesses* state);

  // Begins a branch or a loop, which ends at the matching call of Leave or Abandon. acquires: a
  // fence::after may stand before it.
  void Enter(bool acquires) { scopes_.push_back({.acquires = acquires}); }
  // Returns the waits and fences to insert before the branch or loop, for all threads that reach
  // it. Updates `state` to the state after it.
  std::vector<ir::Stmt> Leave(const ir::Span& span, const analysis::ThreadSet& executing,
                              TensorAccesses* state);
  // Ends a branch or a loop that is walked again later.
  void Abandon() { scopes_.pop_back(); }
  int depth() const { return static_cast<int>(scopes_.size()); }
  const Scopes& scopes() const { return scopes_; }
  // Restores the scopes, to walk the statements since then once more.
  void Restore(const Scopes& scopes) { scopes_ = scopes; }

  // Returns whether this object has inserted a statement. A second walk decides again about all of
  // them.
  bool Has(const ir::Stmt& s) const { return placed_.count(s) != 0; }

 private:
  // Each function appends to `out_`, unless the operation can be placed before a branch or loop
  // around.
  void Release(TensorAccesses* state, const ir::Span& span);
  void WaitForStores(TensorAccesses* state, const ir::Span& span);
  // Inserts a statement. depth: the depth of the items of its list that need it.
  void Place(Kind kind, int depth, TensorAccesses* state, const ir::Span& span);
  void Access(const analysis::AccessPtr& access, TensorAccesses* state, const ir::Span& span);
  void Synchronize(const ir::Stmt& s, TensorAccesses* state);
  void Pass(const ir::FenceNode* fence, TensorAccesses* state);
  void Meet(const ir::BarrierNode* barrier, TensorAccesses* state);
  // Orders the executing threads after accesses of other threads.
  void Learn(const std::vector<analysis::AccessPtr>& accesses, TensorAccesses* state) const;
  void WaitOn(const ir::Buffer& barrier, TensorAccesses* state);
  // Returns the depth of the accesses that need a fence::after before this access; -1 if there is
  // none.
  int DepthAcquired(const TensorAccesses& state, const analysis::AccessPtr& access);
  ir::Stmt Make(Kind kind, const ir::Span& span);
  static AccessList* ListOf(Kind kind, TensorAccesses* state);

  const analysis::BlockThreads& threads_;
  analysis::ConflictTable* conflicts_;
  Handovers handovers_;
  analysis::AccessPtr all_;  // of tensor memory; null: there is none
  Scopes scopes_;
  std::unordered_set<ir::Stmt, ir::ffi::ObjectPtrHash, ir::ffi::ObjectPtrEqual> placed_;
  // The threads of the current statement, and the statements inserted before it.
  analysis::ThreadSet executing_;
  std::vector<ir::Stmt> out_;
};

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_TENSOR_ORDER_H_
