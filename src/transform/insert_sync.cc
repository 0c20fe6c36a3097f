#include "transform/insert_sync.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <list>
#include <unordered_map>
#include <unordered_set>

#include "ir/error.h"
#include "ir/visitor.h"
#include "op/effect.h"
#include "op/issue.h"
#include "op/scratch.h"
#include "op/thread_sync.h"
#include "transform/pending_accesses.h"
#include "transform/sync_calls.h"
#include "transform/uniformity.h"

namespace tilelang::transform {

using namespace ir;  // NOLINT(google-build-using-namespace)

namespace {

// The threads that run a statement: those that arrive at a barrier there.
struct Team {
  ThreadSet threads;
  bool arrives = true;  // all of them; false: some, which are known only at run time

  // A group that can wait for each other.
  std::optional<op::ThreadRange> Group() const {
    if (!arrives) return std::nullopt;
    auto range = threads.AsRange();
    bool warps = range && range->begin % 32 == 0 && range->count % 32 == 0;
    return warps || threads.IsWholeBlock() ? range : std::nullopt;
  }
};

// What threads store to tensors that they read themselves no engine touches.
PendingAccess Pending(const AccessPtr& access) {
  return {.access = access, .fenced = access->write && access->buffer.IsGlobal()};
}

class SyncInserter {
 public:
  SyncInserter(const KernelLaunchNode* launch, bool between_statements)
      : launch_(launch),
        between_statements_(between_statements),
        uniformity_(launch),
        threads_(uniformity_.threads()),
        context_(ContextOf(launch)),
        team_{threads_.All()} {
    auto offsets = launch->attrs.find("smem_offsets");
    TL_CHECK(offsets != launch->attrs.end(), launch->span, "PlanSharedMemory must run first");
    offsets_ = (*offsets).second.cast<Map<Buffer, int64_t>>();
    FindEngineBytes();
    PlaceTensors();
  }

  Stmt Run() {
    PendingAccesses state;
    return Fenced(Process(launch_->body, &state));
  }
  // The tensors whose accesses got a barrier.
  const Array<Buffer>& ordered_tensors() const { return ordered_tensors_; }

 private:
  // Returns `s` with barriers; state: before and after it.
  Stmt Process(const Stmt& s, PendingAccesses* state);
  Stmt ProcessSeq(const SeqNode* op, PendingAccesses* state);
  Stmt ProcessIf(const IfNode* op, PendingAccesses* state);
  Stmt ProcessBranch(const IfNode* op, PendingAccesses* state);
  Stmt ProcessLoop(const Stmt& loop, PendingAccesses* state);
  Stmt ProcessDivergentLoop(const Stmt& loop, PendingAccesses* state);
  Stmt ProcessBody(const Stmt& loop, PendingAccesses* carried);
  Stmt ProcessIteration(const Stmt& loop, PendingAccesses* state);
  Stmt ProcessTeamOnly(const Stmt& body, const Expr& condition, const Team& team);
  Stmt Leaf(const Stmt& s, PendingAccesses* state);

  // Puts a barrier before `s` when `accesses` conflict with what is pending.
  Stmt Guarded(const Stmt& s, const std::vector<AccessPtr>& accesses, bool role,
               PendingAccesses* state);
  bool Waits(const PendingAccess& earlier, const AccessPtr& later, bool role) const;
  void RecordWhole(const Stmt& s, bool role, PendingAccesses* state);
  // Whether the threads have stored, without a fence since, what an engine touches somewhere.
  bool LacksFence(const PendingAccesses& state) const;
  void FindEngineBytes();
  void PlaceTensors();
  void Order(const Buffer& tensor);
  // The threads of `active` that wait for engines inside; with a buffer, those that wait for what
  // engines do to it: a side of a branch waits for its own.
  ThreadSet WaitersIn(const Stmt& s, const ThreadSet& active,
                      const BufferNode* buffer = nullptr) const;
  bool IsBarrier(const Stmt& s) const;
  // Accesses of a processed statement up to the first barrier; true when none can pass beyond.
  bool Exposed(const Stmt& s, std::vector<AccessPtr>* out);
  const std::vector<AccessPtr>& AccessesOf(const Stmt& s);
  // Those of a statement that was met before, wherever it stands.
  std::vector<AccessPtr> AccessesAnywhere(const Stmt& s);
  // The evaluation of a condition or bound: one statement, whenever it is asked for.
  const Stmt& Head(const Expr& e);
  Stmt Fenced(const Stmt& s) const;

  const KernelLaunchNode* launch_;
  bool between_statements_;
  Uniformity uniformity_;
  const BlockThreads& threads_;
  Map<Buffer, int64_t> offsets_;
  AccessContext context_;
  Team team_;
  // One statement or condition may stand in several places.
  struct Place {
    AccessContext context;
    std::vector<AccessPtr> accesses;
  };
  std::unordered_map<const ffi::Object*, std::list<Place>> accesses_;
  std::unordered_map<const ffi::Object*, Stmt> heads_;
  std::vector<Stmt> alive_;             // the keys of accesses_
  std::vector<PendingAccesses> exits_;  // at the Breaks and Continues of the loops around
  std::unordered_set<const ffi::Object*> divergent_;       // statements treated as one
  std::unordered_set<const ffi::Object*> needs_fence_;     // barriers
  std::vector<std::pair<int64_t, int64_t>> engine_bytes_;  // of shared memory: begin, end
  int inserted_ = 0;                                       // barriers, so far
  Array<Buffer> ordered_tensors_;
};

const std::vector<AccessPtr>& SyncInserter::AccessesOf(const Stmt& s) {
  std::list<Place>& places = accesses_[s.get()];
  for (const Place& place : places) {
    if (IsSamePlace(place.context, context_)) return place.accesses;
  }
  if (places.empty()) alive_.push_back(s);
  Place& place = places.emplace_back();
  place.context = context_;
  CollectAccesses(s, context_, offsets_, &place.accesses);
  return place.accesses;
}

std::vector<AccessPtr> SyncInserter::AccessesAnywhere(const Stmt& s) {
  auto known = accesses_.find(s.get());
  if (known == accesses_.end()) return AccessesOf(s);
  std::vector<AccessPtr> all;
  for (const Place& place : known->second) {
    all.insert(all.end(), place.accesses.begin(), place.accesses.end());
  }
  return all;
}

const Stmt& SyncInserter::Head(const Expr& e) {
  Stmt& head = heads_[e.get()];
  if (!head.defined()) head = Evaluate(e, e.span());
  return head;
}

bool SyncInserter::IsBarrier(const Stmt& s) const {
  if (s->kind != StmtKind::kEvaluate && s->kind != StmtKind::kBind && s->kind != StmtKind::kStore) {
    return false;
  }
  auto group = team_.Group();
  return HasCall(s, [&](const CallNode* call, const Intrinsic* intrinsic) {
    if (intrinsic == nullptr) return false;
    // Of threads that are known only at run time, those of one warp.
    if (intrinsic->sync == SyncKind::kWarp) return !group || group->count <= 32;
    if (intrinsic->sync != SyncKind::kCta) return false;
    bool range = call->name == "sync_range";
    if (!range && (call->name != "sync_threads" || call->args.empty())) return true;
    int64_t count = AsInt(call->args[1]).value_or(-1);
    if (!group) return count == threads_.count();
    bool same = !range || AsInt(call->args[0]) == group->begin;
    return same && count == group->count;
  });
}

Stmt SyncInserter::Process(const Stmt& s, PendingAccesses* state) {
  switch (s->kind) {
    case StmtKind::kSeq:
      return ProcessSeq(s.as<SeqNode>(), state);
    case StmtKind::kIf:
      return ProcessIf(s.as<IfNode>(), state);
    case StmtKind::kFor:
      if (s.as<ForNode>()->Kind() == ForKind::kVectorized) return Leaf(s, state);
      return ProcessLoop(s, state);
    case StmtKind::kWhile:
      return ProcessLoop(s, state);
    default:
      return Leaf(s, state);
  }
}

Stmt SyncInserter::ProcessSeq(const SeqNode* op, PendingAccesses* state) {
  std::vector<Stmt> stmts;
  for (const Stmt& child : op->stmts) {
    Stmt processed = Process(child, state);
    // A barrier and the statement after it join this sequence.
    const auto* pair = processed.as<SeqNode>();
    if (pair != nullptr && child->kind != StmtKind::kSeq) {
      stmts.insert(stmts.end(), pair->stmts.begin(), pair->stmts.end());
    } else {
      stmts.push_back(processed);
    }
  }
  return Seq(Array<Stmt>(stmts.begin(), stmts.end()), op->span);
}

Stmt SyncInserter::Leaf(const Stmt& s, PendingAccesses* state) {
  const std::vector<AccessPtr>& accesses = AccessesOf(s);
  if (const auto* bind = s.as<BindNode>()) {
    context_.values.Set(bind->var, Substitute(bind->value, context_.values));
  }
  Stmt result = accesses.empty() ? s : Guarded(s, accesses, false, state);
  if (IsArrival(s) && LacksFence(*state)) {
    result = Seq({op::Effect("fence_proxy_async", {}, s.span()), result}, s.span());
    state->PassFence();
  }
  for (const AccessPtr& access : accesses) state->Add(Pending(access));
  if (s->kind == StmtKind::kBreak || s->kind == StmtKind::kContinue) exits_.back().Merge(*state);
  if (IsBarrier(s)) state->PassBarrier(s.get());
  if (IsFence(s)) state->PassFence();
  if (WaitsOnMbarrier(s)) state->PassWait(MbarrierWaitedOn(s));
  if (WaitsForStores(s)) state->PassStoreWait();
  if (IsWgmmaCommit(s)) state->PassWgmmaCommit();
  if (auto left = WgmmaLeftBy(s)) state->PassWgmmaWait(*left, threads_);
  return result;
}

void SyncInserter::FindEngineBytes() {
  WalkExprs(launch_->body, [&](const Expr& e) {
    const auto* call = e.as<CallNode>();
    if (call == nullptr) return true;
    for (const MemoryEffect& effect : CallEffects(call)) {
      if (effect.proxy != Proxy::kAsync || !effect.buffer.IsShared()) continue;
      int64_t begin = offsets_[effect.buffer];
      int64_t size = *AsInt(effect.buffer->shape[0]) * Bytes(effect.buffer->dtype);
      engine_bytes_.emplace_back(begin, begin + size);
    }
    return true;
  });
}

// Beyond shared memory, each in a range of its own.
void SyncInserter::PlaceTensors() {
  constexpr int64_t kApart = int64_t{1} << 40;
  int64_t place = 0;
  for (const Buffer& tensor : SharedTensors(launch_)) offsets_.Set(tensor, place += kApart);
}

void SyncInserter::Order(const Buffer& tensor) {
  for (const Buffer& known : ordered_tensors_) {
    if (known.same_as(tensor)) return;
  }
  ordered_tensors_.push_back(tensor);
}

bool SyncInserter::LacksFence(const PendingAccesses& state) const {
  return std::any_of(state.All().begin(), state.All().end(), [&](const PendingAccess& p) {
    if (!p.IsStoreByThreads() || p.fenced) return false;
    return std::any_of(engine_bytes_.begin(), engine_bytes_.end(), [&](const auto& bytes) {
      return p.access->begin < bytes.second && bytes.first < p.access->end;
    });
  });
}

bool SyncInserter::Waits(const PendingAccess& earlier, const AccessPtr& later, bool role) const {
  if (earlier.by_role && role) return false;
  const Buffer& buffer = later->buffer;
  bool programs = earlier.access->buffer.same_as(buffer) && !op::IsScratch(buffer);
  if (programs && !between_statements_) return false;
  return NeedsBarrier(earlier, *later, threads_);
}

Stmt SyncInserter::Guarded(const Stmt& s, const std::vector<AccessPtr>& accesses, bool role,
                           PendingAccesses* state) {
  Buffer conflict;
  bool fence = false;
  for (const AccessPtr& access : accesses) {
    for (const PendingAccess& p : state->All()) {
      if (!Waits(p, access, role)) continue;
      conflict = access->buffer;
      if (conflict.IsGlobal()) Order(conflict);
      fence |= p.IsStoreByThreads() && !p.fenced && access->proxy == Proxy::kAsync;
    }
  }
  Stmt barrier;
  if (conflict.defined()) {
    auto group = team_.Group();
    if (!group) {
      TL_USER_ERROR(kSemantics, s.span(),
                    "threads that take this branch must wait for each other here, because they "
                    "touch the same elements of "
                        << (conflict.IsGlobal() ? std::string(conflict->name) : "shared memory")
                        << ", but the branch is not taken by whole warps of consecutive threads. "
                           "Move the statement out of the branch, or let warps take it as a "
                           "whole");
    }
    barrier = op::SyncThreads(*group, threads_.count(), s.span());
    ++inserted_;
    if (fence) {
      needs_fence_.insert(barrier.get());
      state->PassFence();
    }
    state->PassBarrier(barrier.get());
  }
  for (const AccessPtr& access : accesses) {
    state->TakeFences(*access, [&](const ffi::Object* b) { needs_fence_.insert(b); });
  }
  return conflict.defined() ? Seq({barrier, s}, s.span()) : s;
}

// A statement that some threads execute, each its part.
void SyncInserter::RecordWhole(const Stmt& s, bool role, PendingAccesses* state) {
  ThreadSet waiters = WaitersIn(s, team_.threads);
  bool on_mbarrier = WaitsOnMbarrier(s);
  bool for_stores = WaitsForStores(s);
  state->PassWait(waiters, on_mbarrier, for_stores);
  for (const AccessPtr& access : AccessesOf(s)) {
    if (access->by_warpgroup) {
      state->Add({.access = access,
                  .by_role = role,
                  .complete = WaitsForWgmma(s),
                  .known = KnownToWarpgroup(*access, threads_)});
      continue;
    }
    bool engine = access->proxy == Proxy::kAsync;
    ThreadSet known = engine ? WaitersIn(s, team_.threads, access->buffer.get()) : waiters;
    PendingAccess pending = Pending(access);
    pending.by_role = role;
    pending.complete = access->in_bulk_group ? for_stores : on_mbarrier;
    pending.known = known;
    state->Add(pending);
  }
}

ThreadSet SyncInserter::WaitersIn(const Stmt& s, const ThreadSet& active,
                                  const BufferNode* buffer) const {
  ThreadSet result = threads_.Of({0, 0});
  if (const auto* seq = s.as<SeqNode>()) {
    for (const Stmt& child : seq->stmts) result = result | WaitersIn(child, active, buffer);
  } else if (const auto* op = s.as<IfNode>()) {
    ThreadSelection selection = threads_.Select(op->condition, active);
    if (!selection.rest.empty()) return result;
    bool divides = op->else_case.defined() && buffer != nullptr;
    bool then_uses = !divides || EngineUses(op->then_case, buffer);
    bool else_uses = !divides || EngineUses(op->else_case, buffer);
    // Each side waits for what it asked for; neither for what the other did.
    if (divides && then_uses && else_uses) return result;
    if (then_uses || !else_uses) result = WaitersIn(op->then_case, selection.threads, buffer);
    if (op->else_case.defined() && (else_uses || !then_uses)) {
      result = result | WaitersIn(op->else_case, active - selection.threads, buffer);
    }
  } else if (const auto* op = s.as<ForNode>()) {
    result = WaitersIn(op->body, active, buffer);
  } else if (const auto* op = s.as<WhileNode>()) {
    result = WaitersIn(op->body, active, buffer);
  } else if (WaitsForEngines(s)) {
    result = active;
  }
  return result;
}

Stmt SyncInserter::ProcessIf(const IfNode* op, PendingAccesses* state) {
  bool uniform = team_.arrives ? uniformity_.IsUniform(op->condition, team_.threads)
                               : uniformity_.IsUniform(op->condition);
  if (!uniform) return ProcessBranch(op, state);
  Stmt checked = Leaf(Head(op->condition), state);
  PendingAccesses other = *state;
  context_.guards.push_back(op->condition);
  Stmt then_case = Process(op->then_case, state);
  context_.guards.back() = Not(op->condition);
  Stmt else_case = op->else_case.defined() ? Process(op->else_case, &other) : Stmt();
  context_.guards.pop_back();
  state->Merge(other);
  Stmt result = If(op->condition, then_case, else_case, op->span);
  const auto* pair = checked.as<SeqNode>();
  return pair == nullptr ? result : Seq({pair->stmts[0], result}, op->span);
}

// A branch that some threads take: seen from outside it is one statement.
Stmt SyncInserter::ProcessBranch(const IfNode* op, PendingAccesses* state) {
  Stmt whole = ffi::GetRef<Stmt>(op);
  bool role = IsRole(whole);
  std::vector<AccessPtr> accesses = AccessesOf(whole);
  ThreadSelection chosen = threads_.Select(op->condition, team_.threads);
  bool together = team_.arrives;
  for (const Expr& part : chosen.rest) {
    together = together && uniformity_.IsUniform(part, chosen.threads);
  }
  Stmt then_case = ProcessTeamOnly(op->then_case, op->condition, {chosen.threads, together});
  Stmt else_case;
  if (op->else_case.defined()) {
    bool known = chosen.rest.empty();
    ThreadSet others = known ? team_.threads - chosen.threads : team_.threads;
    else_case =
        ProcessTeamOnly(op->else_case, Not(op->condition), {others, team_.arrives && known});
  }
  Stmt result = If(op->condition, then_case, else_case, op->span);
  alive_.push_back(result);
  accesses_[result.get()] = {{context_, accesses}};
  divergent_.insert(result.get());
  Stmt guarded = Guarded(result, accesses, role, state);
  RecordWhole(result, role, state);
  return guarded;
}

Stmt SyncInserter::ProcessTeamOnly(const Stmt& body, const Expr& condition, const Team& team) {
  Team outer = std::exchange(team_, team);
  context_.guards.push_back(condition);
  PendingAccesses inside;
  Stmt result = Process(body, &inside);
  context_.guards.pop_back();
  team_ = outer;
  return result;
}

Stmt WithBody(const Stmt& loop, const Stmt& body) {
  if (const auto* op = loop.as<ForNode>()) {
    return For(op->var, op->min, op->extent, op->Kind(), body, op->annotations, op->span);
  }
  return While(loop.as<WhileNode>()->condition, body, loop.span());
}

// One iteration from `state` to what is pending after it, wherever it ends.
Stmt SyncInserter::ProcessIteration(const Stmt& loop, PendingAccesses* state) {
  const auto* op = loop.as<ForNode>();
  const auto* while_op = loop.as<WhileNode>();
  bool constant = op != nullptr && AsInt(op->min) && AsInt(op->extent);
  if (constant) context_.loops.push_back({op->var, *AsInt(op->min), *AsInt(op->extent)});
  exits_.emplace_back();
  Stmt body = Process(op != nullptr ? op->body : while_op->body, state);
  // The condition of the next iteration is read after the body.
  const Stmt& head = Head(op != nullptr ? op->extent : while_op->condition);
  Stmt checked = Leaf(head, state);
  if (const auto* pair = checked.as<SeqNode>()) body = Seq({body, pair->stmts[0]}, body.span());
  state->Merge(exits_.back());
  exits_.pop_back();
  if (constant) context_.loops.pop_back();
  return WithBody(loop, body);
}

// Processes the body until no more barriers come for what earlier iterations leave: `carried`.
Stmt SyncInserter::ProcessBody(const Stmt& loop, PendingAccesses* carried) {
  constexpr int kMaxRounds = 16;
  Stmt result = loop;
  for (int round = 0; round < kMaxRounds; ++round) {
    int before = inserted_;
    PendingAccesses state = *carried;
    result = ProcessIteration(result, &state);
    state.SetCarried(true);
    bool settled = inserted_ == before && carried->Covers(state);
    *carried = state;
    if (settled) return result;
  }
  TL_CHECK(false, loop.span(), "the barriers of a loop do not settle");
}

Stmt SyncInserter::ProcessLoop(const Stmt& loop, PendingAccesses* state) {
  if (!uniformity_.IsUniformLoop(loop.get())) return ProcessDivergentLoop(loop, state);
  PendingAccesses carried;
  Stmt result = ProcessBody(loop, &carried);
  std::vector<AccessPtr> exposed;
  Exposed(result, &exposed);
  Stmt guarded = Guarded(result, exposed, false, state);
  // The first iteration finds what the statements before the loop left.
  PendingAccesses before = *state;
  state->Merge(carried);
  result = ProcessIteration(result, state);
  state->SetCarried(false);
  const auto* op = loop.as<ForNode>();
  bool runs = op != nullptr && AsInt(op->extent).value_or(0) > 0;
  if (!runs) state->Merge(before);
  const auto* pair = guarded.as<SeqNode>();
  return pair == nullptr ? result : Seq({pair->stmts[0], result}, loop.span());
}

// A loop that its threads run a different number of times: seen from outside it is one statement.
Stmt SyncInserter::ProcessDivergentLoop(const Stmt& loop, PendingAccesses* state) {
  std::vector<AccessPtr> whole = AccessesOf(loop);
  Team outer = team_;
  team_.arrives = false;
  PendingAccesses carried;
  Stmt result = ProcessBody(loop, &carried);
  team_ = outer;
  alive_.push_back(result);
  accesses_[result.get()] = {{context_, whole}};
  divergent_.insert(result.get());
  uniformity_.MarkLoop(result.get());
  Stmt guarded = Guarded(result, whole, false, state);
  RecordWhole(result, false, state);
  return guarded;
}

bool SyncInserter::Exposed(const Stmt& s, std::vector<AccessPtr>* out) {
  auto add = [&](const Stmt& part) {
    std::vector<AccessPtr> accesses = AccessesAnywhere(part);
    out->insert(out->end(), accesses.begin(), accesses.end());
  };
  if (const auto* seq = s.as<SeqNode>()) {
    for (const Stmt& child : seq->stmts) {
      if (Exposed(child, out)) return true;
    }
    return false;
  }
  if (divergent_.count(s.get())) {
    add(s);
    return false;
  }
  if (const auto* op = s.as<ForNode>(); op != nullptr && op->Kind() != ForKind::kVectorized) {
    add(Head(op->extent));
    return Exposed(op->body, out) && AsInt(op->extent).value_or(0) > 0;
  }
  if (const auto* op = s.as<WhileNode>()) {
    add(Head(op->condition));
    Exposed(op->body, out);
    return false;
  }
  if (const auto* op = s.as<IfNode>()) {
    add(Head(op->condition));
    bool then_passes = Exposed(op->then_case, out);
    return op->else_case.defined() && Exposed(op->else_case, out) && then_passes;
  }
  add(s);
  return IsBarrier(s);
}

// Puts the fences before the barriers that need them.
Stmt SyncInserter::Fenced(const Stmt& s) const {
  class Mutator : public StmtMutator {
   public:
    explicit Mutator(const std::unordered_set<const ffi::Object*>& barriers)
        : barriers_(barriers) {}
    Stmt MutateStmt(const Stmt& s) override {
      if (!barriers_.count(s.get())) return StmtMutator::MutateStmt(s);
      Expr fence = Call(dtypes::kVoid, "fence_proxy_async", {}, {}, s.span());
      return Seq({Evaluate(fence, s.span()), s}, s.span());
    }

   private:
    const std::unordered_set<const ffi::Object*>& barriers_;
  };
  return Mutator(needs_fence_).MutateStmt(s);
}

class Launches : public StmtMutator {
 public:
  explicit Launches(bool between_statements) : between_statements_(between_statements) {}
  using StmtMutator::Rewrite;
  Stmt Rewrite(const KernelLaunchNode* op) override {
    SyncInserter inserter(op, between_statements_);
    Stmt body = inserter.Run();
    auto attrs = op->attrs;
    if (!inserter.ordered_tensors().empty()) {
      attrs.Set("ordered_tensors", inserter.ordered_tensors());
    }
    return KernelLaunch(op->block_vars, op->grid, op->thread_vars, op->threads, attrs, body,
                        op->span);
  }

 private:
  bool between_statements_;
};

}  // namespace

Func InsertSync(const Func& func, bool between_statements) {
  return func.WithBody(Launches(between_statements).MutateStmt(func->body));
}

TVM_FFI_STATIC_INIT_BLOCK() {
  ffi::reflection::GlobalDef().def("tl.transform.InsertSync",
                                   [](Func func) { return InsertSync(func); });
}

}  // namespace tilelang::transform
