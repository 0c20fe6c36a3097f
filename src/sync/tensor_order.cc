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

// Whether a load reads what these threads are storing, or needs the registers.
bool MustWait(const TensorAccesses& state, const MemoryAccess& load, const ThreadSet& team) {
  constexpr int64_t kMostInFlight = 128;
  if (!load.read || load.proxy != Proxy::kGeneric) return false;
  int64_t registers = 0;
  for (const auto& [store, depth, threads] : state.stored.Items()) {
    if (!threads.Overlaps(team)) continue;
    if (ShareCells(*store, load)) return true;
    registers += store->registers;
  }
  return registers > 0 && registers + load.registers > kMostInFlight;
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
    AccessList::Item item{access, depth(), team};
    state->unfenced.Add(item);
    state->unsynced.Add(item);
    if (access->write) state->stored.Add(item);
  }
  WalkExprs(s, [&](const Expr& e) {
    if (const auto* call = e.as<CallNode>()) Synchronize(call, state, s.span());
    return true;
  });
  if (IsCallThat(s, CallOrder::kUnknown)) {
    Release(state, s.span());
    Learn(handovers_.All(), state);
  }
  return std::exchange(out_, {});
}

void TensorOrder::Access(const AccessPtr& access, TensorAccesses* state, const Span& span) {
  if (MustWait(*state, *access, team_)) WaitForStores(state, span);
  int from = DepthAcquired(*state, access);
  if (from >= 0) Place(kAfter, from, state, span);
}

std::vector<Stmt> TensorOrder::Leave(const Span& span, const ThreadSet& team,
                                     TensorAccesses* state) {
  Scope scope = scopes_.back();
  scopes_.pop_back();
  std::vector<Stmt> stmts;
  for (Kind kind : {kStores, kBefore, kAfter}) {
    if (!scope.needs[kind]) continue;
    stmts.push_back(Make(kind, span));
    ListOf(kind, state)->Remove(team, depth());
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
    state->unfenced.Remove(team_, depth());
  }
  if (order == CallOrder::kTensorAfter) state->acquired.Remove(team_, depth());
  if (order == CallOrder::kTensorAlloc) {
    state->unfenced.Add({all_, depth(), team_});
    state->learned.Add({all_, depth(), team_});
  }
  if (order == CallOrder::kTensorFree) Place(kAfter, depth(), state, span);
}

// The threads of a barrier synchronize.
void TensorOrder::Meet(const CallNode* call, TensorAccesses* state) {
  auto number = [&](size_t i) { return AsInt(call->args[i]).value_or(-1); };
  bool of_block = OrderOf(call) == CallOrder::kBlock;
  bool all = of_block || (OrderOf(call) == CallOrder::kWarp && team_.Count() <= kWarp);
  if (call->name == "sync_range") {
    op::ThreadRange range{number(0), number(1)};
    all = threads_.Of(range).Contains(team_);
    of_block = range.count == threads_.count();
  } else if (call->name == "sync_threads" && !call->args.empty()) {
    all = of_block = number(1) == threads_.count();
    // Others that the program has chosen may be among them.
    if (!all) Learn(handovers_.All(), state);
  }
  std::vector<AccessPtr> known;
  for (const AccessList::Item& item : state->unsynced.Items()) {
    state->acquired.Add({item.access, depth(), team_});
    known.push_back(item.access);
  }
  for (const AccessList::Item& item : state->learned.Items()) {
    state->acquired.Add({item.access, depth(), team_ - item.threads});
    known.push_back(item.access);
  }
  if (!all) return;
  state->unsynced.Clear();
  if (of_block) {
    state->learned.Clear();
  } else {
    state->learned.Add(known, depth(), team_);
  }
}

void TensorOrder::WaitOn(const Buffer& barrier, TensorAccesses* state) {
  if (barrier.defined()) Learn(handovers_.To(barrier, team_), state);
}

void TensorOrder::Learn(const std::vector<AccessPtr>& accesses, TensorAccesses* state) const {
  state->acquired.Add(accesses, depth(), team_);
  state->learned.Add(accesses, depth(), team_);
}

int TensorOrder::DepthAcquired(const TensorAccesses& state, const AccessPtr& access) {
  int deepest = -1;
  for (const auto& [earlier, depth, threads] : state.acquired.Items()) {
    bool engine = earlier->proxy == Proxy::kAsync && access->proxy == Proxy::kAsync;
    // The pipe of one issuer is in order.
    bool in_order = engine && earlier->actors == access->actors;
    if (depth <= deepest || in_order || !threads.Overlaps(team_)) continue;
    if (conflicts_->MayConflict(earlier, access, true)) deepest = depth;
  }
  return deepest;
}

void TensorOrder::Release(TensorAccesses* state, const Span& span) {
  WaitForStores(state, span);
  int from = state->unfenced.Deepest(team_);
  if (from >= 0) Place(kBefore, from, state, span);
}

void TensorOrder::WaitForStores(TensorAccesses* state, const Span& span) {
  int from = state->stored.Deepest(team_);
  if (from >= 0) Place(kStores, from, state, span);
}

void TensorOrder::Place(Kind kind, int depth, TensorAccesses* state, const Span& span) {
  auto at = static_cast<size_t>(depth);
  while (at < scopes_.size() && kind == kAfter && !scopes_[at].acquires) ++at;
  if (at < scopes_.size()) {
    scopes_[at].needs[kind] = true;
  } else {
    out_.push_back(Make(kind, span));
  }
  ListOf(kind, state)->Remove(team_, static_cast<int>(at));
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
