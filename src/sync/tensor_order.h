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

// What accesses that conflict need beside the barriers and phases by which threads wait for each
// other and for engines:
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
// before the first access that conflicts, all of them before the branches and loops in which
// nothing but accesses before these needs them. A load waits for stores as well if their registers
// and its own are more than half of a thread's.
class TensorOrder {
 public:
  enum Kind : uint8_t { kStores, kBefore, kAfter };  // wait::st; fence::
  // The branches and loops around, outermost first.
  struct Scope {
    bool acquires;
    bool needs[3] = {};  // before it, by kind
  };
  using Scopes = std::vector<Scope>;

  // Of the body of a launch.
  TensorOrder(const ir::Stmt& body, const analysis::BlockThreads& threads,
              const analysis::AccessContext& context, analysis::AccessTable* table,
              analysis::ConflictTable* conflicts);

  // What must stand before a statement without control flow that these threads execute, and that
  // makes these accesses; state: before and after it.
  std::vector<ir::Stmt> Before(const ir::Stmt& s, const std::vector<analysis::AccessPtr>& accesses,
                               const analysis::ThreadSet& team, TensorAccesses* state);

  // Up to the matching call of Leave or Abandon statements are those of a branch or a loop.
  // acquires: a fence::after may stand before it.
  void Enter(bool acquires) { scopes_.push_back({.acquires = acquires}); }
  // What must stand before it, for all of the team around it; state: after it, or where it is
  // passed by.
  std::vector<ir::Stmt> Leave(const ir::Span& span, const analysis::ThreadSet& team,
                              TensorAccesses* state);
  // The same of one that is walked again later.
  void Abandon() { scopes_.pop_back(); }
  int depth() const { return static_cast<int>(scopes_.size()); }
  const Scopes& scopes() const { return scopes_; }
  // To walk the statements since then once more.
  void Restore(const Scopes& scopes) { scopes_ = scopes; }

  // Whether a statement is one of those above: of what is walked again they are decided anew.
  bool Has(const ir::Stmt& s) const { return placed_.count(s) != 0; }

 private:
  // Each appends to `out_` unless a branch or a loop around can have it before.
  void Release(TensorAccesses* state, const ir::Span& span);
  void WaitForStores(TensorAccesses* state, const ir::Span& span);
  // depth: of those of its list that need it.
  void Place(Kind kind, int depth, TensorAccesses* state, const ir::Span& span);
  void Access(const analysis::AccessPtr& access, TensorAccesses* state, const ir::Span& span);
  void Synchronize(const ir::Stmt& s, TensorAccesses* state);
  void Pass(const ir::FenceNode* fence, TensorAccesses* state);
  void Meet(const ir::BarrierNode* barrier, TensorAccesses* state);
  // The team comes after what others did.
  void Learn(const std::vector<analysis::AccessPtr>& accesses, TensorAccesses* state) const;
  void WaitOn(const ir::Buffer& barrier, TensorAccesses* state);
  // How deep those are that a fence::after must stand between them and the access; -1: none.
  int DepthAcquired(const TensorAccesses& state, const analysis::AccessPtr& access);
  ir::Stmt Make(Kind kind, const ir::Span& span);
  static AccessList* ListOf(Kind kind, TensorAccesses* state);

  const analysis::BlockThreads& threads_;
  analysis::ConflictTable* conflicts_;
  Handovers handovers_;
  analysis::AccessPtr all_;  // of tensor memory; null: there is none
  Scopes scopes_;
  std::unordered_set<ir::Stmt, ir::ffi::ObjectPtrHash, ir::ffi::ObjectPtrEqual> placed_;
  // Of the statement that is being asked for.
  analysis::ThreadSet team_;
  std::vector<ir::Stmt> out_;
};

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_TENSOR_ORDER_H_
