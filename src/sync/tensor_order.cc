#include "sync/tensor_order.h"

#include <algorithm>
#include <utility>

#include "analysis/call_order.h"
#include "ir/async.h"
#include "ir/visitor.h"
#include "op/effect.h"
#include "target/warp.h"

namespace tilelang::sync {

using namespace analysis;  // NOLINT(google-build-using-namespace)
using namespace ir;        // NOLINT(google-build-using-namespace)

namespace {

// Whether a load reads what is being stored, or needs the registers.
bool MustWait(const TensorAccesses& state, const MemoryAccess& load) {
  constexpr int64_t kMostInFlight = 128;
  if (!load.read || load.proxy != Proxy::kGeneric) return false;
  int64_t registers = load.registers;
  bool stored = false;
  for (const auto& store : state.stored.Items()) {
    registers += store.access->registers;
    stored |= ShareCells(*store.access, load);
  }
  return stored || (!state.stored.IsEmpty() && registers > kMostInFlight);
}

}  // namespace

TensorOrder::TensorOrder(const Stmt& body, const BlockThreads& threads,
                         const AccessContext& context, AccessTable* table, ConflictTable* conflicts)
    : threads_(threads), conflicts_(conflicts), handovers_(threads) {
  if (!context.tensor_memory.defined()) return;
  all_ = WriteOf(context.tensor_memory, {});
  handovers_.Find(body, table->Of(body, context));
}

std::vector<Stmt> TensorOrder::Before(const Stmt& s, const std::vector<AccessPtr>& accesses,
                                      const ThreadSet& team, TensorAccesses* state) {
  if (!all_) return {};
  team_ = team;
  if (const auto* wait = s.as<WaitNode>()) WaitOn(wait->completion->barrier, state);
  for (const AccessPtr& access : accesses) {
    if (access->buffer.IsTmem()) Access(access, state, s.span());
  }
  for (const AccessPtr& access : accesses) {
    if (!access->buffer.IsTmem() || access->proxy == Proxy::kAsync) continue;
    state->unfenced.Add(access, depth());
    state->unsynced.Add(access, depth());
    if (access->write) state->stored.Add(access, depth());
  }
  WalkExprs(s, [&](const Expr& e) {
    if (const auto* call = e.as<CallNode>()) Synchronize(call, state, s.span());
    return true;
  });
  if (IsCallThat(s, CallOrder::kUnknown)) {
    Release(state, s.span());
    state->acquired.Add(handovers_.All(), depth());
  }
  return std::exchange(out_, {});
}

void TensorOrder::Access(const AccessPtr& access, TensorAccesses* state, const Span& span) {
  if (MustWait(*state, *access)) WaitForStores(state, span);
  int from = DepthAcquired(*state, access);
  if (from >= 0) Place(kAfter, from, state, span);
}

std::vector<Stmt> TensorOrder::Leave(const Span& span, TensorAccesses* state) {
  Scope scope = scopes_.back();
  scopes_.pop_back();
  std::vector<Stmt> stmts;
  for (Kind kind : {kStores, kBefore, kAfter}) {
    if (!scope.needs[kind]) continue;
    stmts.push_back(Make(kind, span));
    ListOf(kind, state)->Remove(depth());
  }
  state->Leave(depth());
  return stmts;
}

// What a call does to the order of accesses.
void TensorOrder::Synchronize(const CallNode* call, TensorAccesses* state, const Span& span) {
  CallOrder order = OrderOf(call);
  bool barrier =
      order == CallOrder::kBlock || order == CallOrder::kWarp || order == CallOrder::kWarpgroups;
  // A commit tells of the tensor core alone.
  if (barrier || ArrivesForOthers(call) || order == CallOrder::kArrive) Release(state, span);
  if (barrier) Meet(call, state);
  if (WaitsForPhase(order)) WaitOn(MbarrierOf(call), state);
  if (order == CallOrder::kTensorBefore) {
    WaitForStores(state, span);
    state->unfenced.Clear();
  }
  if (order == CallOrder::kTensorAfter) state->acquired.Clear();
  if (order == CallOrder::kTensorAlloc) {
    allocator_ = team_;
    state->unfenced.Add(all_, depth());
    state->unsynced.Add(all_, depth());
  }
  if (order == CallOrder::kTensorFree) Place(kAfter, depth(), state, span);
}

// The threads of a barrier synchronize.
void TensorOrder::Meet(const CallNode* call, TensorAccesses* state) {
  CallOrder order = OrderOf(call);
  state->acquired.AddAll(state->unsynced, depth());
  auto number = [&](size_t i) { return AsInt(call->args[i]).value_or(-1); };
  bool all = true;
  if (call->name == "sync_range") {
    all = threads_.Of({number(0), number(1)}).Contains(team_);
  } else if (call->name == "sync_threads" && !call->args.empty()) {
    all = number(1) == threads_.count();
    // Others that the program has chosen may be among them.
    if (!all) state->acquired.Add(handovers_.All(), depth());
  } else if (order != CallOrder::kBlock) {
    all = order == CallOrder::kWarp && team_.Count() <= kWarp;
  }
  if (all) state->unsynced.Clear();
}

void TensorOrder::WaitOn(const Buffer& barrier, TensorAccesses* state) {
  if (barrier.defined()) state->acquired.Add(handovers_.To(barrier, team_), depth());
}

int TensorOrder::DepthAcquired(const TensorAccesses& state, const AccessPtr& access) {
  int deepest = -1;
  for (const auto& [earlier, depth] : state.acquired.Items()) {
    bool engine = earlier->proxy == Proxy::kAsync && access->proxy == Proxy::kAsync;
    // The pipe of one issuer is in order, and so is what the warp does that allocates.
    bool in_order = (engine && earlier->actors == access->actors) ||
                    (earlier == all_ && allocator_.Contains(team_));
    if (depth <= deepest || in_order) continue;
    if (conflicts_->MayConflict(earlier, access, true)) deepest = depth;
  }
  return deepest;
}

void TensorOrder::Release(TensorAccesses* state, const Span& span) {
  WaitForStores(state, span);
  if (!state->unfenced.IsEmpty()) Place(kBefore, state->unfenced.Deepest(), state, span);
}

void TensorOrder::WaitForStores(TensorAccesses* state, const Span& span) {
  if (!state->stored.IsEmpty()) Place(kStores, state->stored.Deepest(), state, span);
}

void TensorOrder::Place(Kind kind, int depth, TensorAccesses* state, const Span& span) {
  auto at = static_cast<size_t>(depth);
  while (at < scopes_.size() && kind == kAfter && !scopes_[at].acquires) ++at;
  if (at < scopes_.size()) {
    scopes_[at].needs[kind] = true;
  } else {
    out_.push_back(Make(kind, span));
  }
  ListOf(kind, state)->Remove(static_cast<int>(at));
}

Stmt TensorOrder::Make(Kind kind, const Span& span) {
  static constexpr const char* kCalls[] = {"tcgen05_wait_st", "tcgen05_before_thread_sync",
                                           "tcgen05_after_thread_sync"};
  const char* header = kind == kStores ? "tcgen_05_st.h" : "tcgen_05.h";
  return *placed_.insert(op::DeviceEffect(header, kCalls[kind], {}, span)).first;
}

AccessList* TensorOrder::ListOf(Kind kind, TensorAccesses* state) {
  switch (kind) {
    case kStores:
      return &state->stored;
    case kBefore:
      return &state->unfenced;
    default:
      return &state->acquired;
  }
}

}  // namespace tilelang::sync
