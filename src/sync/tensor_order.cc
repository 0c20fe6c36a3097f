#include "sync/tensor_order.h"

#include <algorithm>
#include <utility>

#include "analysis/conflicts.h"
#include "analysis/waits.h"
#include "ir/async.h"
#include "ir/intrinsics.h"
#include "ir/visitor.h"
#include "op/effect.h"
#include "op/thread_sync.h"
#include "target/warp.h"

namespace tilelang::sync {

using namespace analysis;  // NOLINT(google-build-using-namespace)
using namespace ir;        // NOLINT(google-build-using-namespace)

namespace {

// Returns whether a load reads cells that these threads are storing, or needs the stored registers.
bool MustWait(const TensorAccesses& state, const MemoryAccess& load, const ThreadSet& executing) {
  constexpr int64_t kMostInFlight = 128;
  if (!load.read || load.proxy != Proxy::kGeneric) return false;
  int64_t registers = 0;
  for (const auto& [store, depth, threads] : state.stored.Items()) {
    if (!threads.Overlaps(executing)) continue;
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
                                      const ThreadSet& executing, TensorAccesses* state) {
  if (!all_) return {};
  executing_ = executing;
  if (const auto* wait = s.as<WaitNode>()) WaitOn(wait->completion->barrier, state);
  for (const AccessPtr& access : accesses) {
    if (access->buffer.IsTmem()) Access(access, state, s.span());
  }
  for (const AccessPtr& access : accesses) {
    if (!access->buffer.IsTmem() || access->proxy == Proxy::kAsync) continue;
    AccessList::Item item{access, depth(), executing};
    state->unfenced.Add(item);
    state->unsynced.Add(item);
    if (access->write) state->stored.Add(item);
  }
  Synchronize(s, state);
  if (const CallNode* call = op::CallOf(s); call != nullptr && IsUnknown(call)) {
    Release(state, s.span());
    Learn(handovers_.All(), state);
  }
  return std::exchange(out_, {});
}

void TensorOrder::Access(const AccessPtr& access, TensorAccesses* state, const Span& span) {
  if (MustWait(*state, *access, executing_)) WaitForStores(state, span);
  int from = DepthAcquired(*state, access);
  if (from >= 0) Place(kAfter, from, state, span);
}

std::vector<Stmt> TensorOrder::Leave(const Span& span, const ThreadSet& executing,
                                     TensorAccesses* state) {
  Scope scope = scopes_.back();
  scopes_.pop_back();
  std::vector<Stmt> stmts;
  for (Kind kind : {kStores, kBefore, kAfter}) {
    if (!scope.needs[kind]) continue;
    stmts.push_back(Make(kind, span));
    ListOf(kind, state)->Remove(executing, depth());
  }
  state->Leave(depth());
  return stmts;
}

// Updates the order of accesses for a statement that contains no other statement.
void TensorOrder::Synchronize(const Stmt& s, TensorAccesses* state) {
  const Span& span = s.span();
  const auto* barrier = s.as<BarrierNode>();
  const auto* arrive = s.as<ArriveNode>();
  bool meets = HasCall(s, Builtin::kBlockVote) ||
               (barrier != nullptr && barrier->Part() == BarrierPart::kWhole);
  // A commit tells of the tensor core alone.
  bool arrives = arrive != nullptr && arrive->Kind() == ArriveKind::kThread;
  if (meets || arrives || ArrivesForOthers(s)) Release(state, span);
  if (meets) Meet(barrier, state);
  if (const auto* wait = s.as<WaitParityNode>()) WaitOn(wait->barrier(), state);
  if (const auto* fence = s.as<FenceNode>()) Pass(fence, state);
  if (const auto* alloc = s.as<TmemAllocNode>()) {
    if (alloc->frees) return Place(kAfter, depth(), state, span);
    state->unfenced.Add({all_, depth(), executing_});
    state->learned.Add({all_, depth(), executing_});
  }
}

void TensorOrder::Pass(const FenceNode* fence, TensorAccesses* state) {
  if (fence->Kind() == FenceKind::kTcgen05Before) {
    WaitForStores(state, fence->span);
    state->unfenced.Remove(executing_, depth());
  }
  if (fence->Kind() == FenceKind::kTcgen05After) state->acquired.Remove(executing_, depth());
}

// The threads of a barrier synchronize. Null stands for a vote of all threads of the block.
void TensorOrder::Meet(const BarrierNode* barrier, TensorAccesses* state) {
  BarrierKind kind = barrier != nullptr ? barrier->Kind() : BarrierKind::kBlock;
  std::optional<op::ThreadRange> meeting = op::ThreadRange{0, threads_.count()};
  if (barrier != nullptr) meeting = op::ThreadsMeetingAt(barrier, threads_.count());
  bool all = meeting ? threads_.Of(*meeting).Contains(executing_)
                     : kind == BarrierKind::kWarp && executing_.Count() <= kWarp;
  bool of_block = meeting && meeting->count == threads_.count();
  // The barrier may include other threads that the program has chosen.
  if (kind == BarrierKind::kNamed && !meeting) Learn(handovers_.All(), state);
  std::vector<AccessPtr> known;
  for (const AccessList::Item& item : state->unsynced.Items()) {
    state->acquired.Add({item.access, depth(), executing_});
    known.push_back(item.access);
  }
  for (const AccessList::Item& item : state->learned.Items()) {
    state->acquired.Add({item.access, depth(), executing_ - item.threads});
    known.push_back(item.access);
  }
  if (!all) return;
  state->unsynced.Clear();
  if (of_block) {
    state->learned.Clear();
  } else {
    state->learned.Add(known, depth(), executing_);
  }
}

void TensorOrder::WaitOn(const Buffer& barrier, TensorAccesses* state) {
  if (barrier.defined()) Learn(handovers_.To(barrier, executing_), state);
}

void TensorOrder::Learn(const std::vector<AccessPtr>& accesses, TensorAccesses* state) const {
  state->acquired.Add(accesses, depth(), executing_);
  state->learned.Add(accesses, depth(), executing_);
}

int TensorOrder::DepthAcquired(const TensorAccesses& state, const AccessPtr& access) {
  int deepest = -1;
  for (const auto& [earlier, depth, threads] : state.acquired.Items()) {
    bool engine = earlier->proxy == Proxy::kAsync && access->proxy == Proxy::kAsync;
    // The pipe of one issuer is in order.
    bool in_order = engine && earlier->actors == access->actors;
    if (depth <= deepest || in_order || !threads.Overlaps(executing_)) continue;
    if (conflicts_->MayConflict(earlier, access, true)) deepest = depth;
  }
  return deepest;
}

void TensorOrder::Release(TensorAccesses* state, const Span& span) {
  WaitForStores(state, span);
  int from = state->unfenced.Deepest(executing_);
  if (from >= 0) Place(kBefore, from, state, span);
}

void TensorOrder::WaitForStores(TensorAccesses* state, const Span& span) {
  int from = state->stored.Deepest(executing_);
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
  ListOf(kind, state)->Remove(executing_, static_cast<int>(at));
}

Stmt TensorOrder::Make(Kind kind, const Span& span) {
  Stmt made = kind == kStores   ? Stmt(WaitGroup(Engine::kTmemLdSt, 0, span))
              : kind == kBefore ? Stmt(Fence(FenceKind::kTcgen05Before, span))
                                : Stmt(Fence(FenceKind::kTcgen05After, span));
  return *placed_.insert(made).first;
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
