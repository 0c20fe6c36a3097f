#include "sync/place_synchronization.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "analysis/access_table.h"
#include "analysis/engine_waiters.h"
#include "analysis/sync_calls.h"
#include "analysis/uniformity.h"
#include "ir/error.h"
#include "ir/visitor.h"
#include "op/effect.h"
#include "op/issue.h"
#include "op/scratch.h"
#include "op/thread_sync.h"
#include "sync/pending_accesses.h"
#include "sync/proxy_fences.h"

namespace tilelang::sync {

using namespace analysis;  // NOLINT(google-build-using-namespace)
using namespace ir;        // NOLINT(google-build-using-namespace)

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

// fence.proxy.async is for shared memory: what threads store to tensors that they read themselves
// no engine touches, and the copies of tensor memory bring fences of their own.
PendingAccess Pending(const AccessPtr& access) {
  return {.access = access, .fenced = access->write && !access->buffer.IsShared()};
}

std::vector<AccessPtr> WithoutTensorMemory(std::vector<AccessPtr> accesses) {
  std::erase_if(accesses, [](const AccessPtr& access) { return access->buffer.IsTmem(); });
  return accesses;
}

Stmt Before(std::vector<Stmt> stmts, const Stmt& s) {
  if (stmts.empty()) return s;
  stmts.push_back(s);
  return op::Sequence(stmts, s.span());
}

// What Before put there.
std::vector<Stmt> BarriersOf(const Stmt& s) {
  const auto* seq = s.as<SeqNode>();
  if (seq == nullptr) return {};
  return {seq->stmts.begin(), seq->stmts.end() - 1};
}

Stmt WithoutBarriers(const Stmt& s) {
  const auto* seq = s.as<SeqNode>();
  return seq == nullptr ? s : seq->stmts.back();
}

class SyncPlacer {
 public:
  SyncPlacer(const KernelLaunchNode* launch, bool between_statements)
      : launch_(launch),
        between_statements_(between_statements),
        uniformity_(launch),
        threads_(uniformity_.threads()),
        context_(ContextOf(launch)),
        table_(PlacesOf(launch)),
        fences_(launch->body, table_.offsets()),
        team_{threads_.All()} {}

  Stmt Run() {
    PendingAccesses state;
    return fences_.Place(Process(launch_->body, &state));
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
  Stmt ProcessTeamOnly(const Stmt& body, const Expr& condition, const Team& team,
                       OpenPhases* phases);
  Stmt Leaf(const Stmt& s, PendingAccesses* state);

  // The barriers that stand before a statement: its accesses conflict with what is pending, or it
  // begins phases that are open.
  std::vector<Stmt> BarriersBefore(const Span& span, const std::vector<AccessPtr>& accesses,
                                   const BarrierList& begun, bool role, PendingAccesses* state);
  Stmt BarrierBetween(const Span& span, const std::vector<AccessPtr>& accesses, bool role,
                      PendingAccesses* state);
  op::ThreadRange GroupAt(const Span& span, const Buffer& conflict) const;
  bool Waits(const PendingAccess& earlier, const AccessPtr& later, bool role);
  // If statement number `fence` begins copies of tensor memory: what they touch.
  std::vector<AccessPtr> CopiesAfter(const SeqNode* op, size_t fence);
  // What branches among statements [first, last] do to tensor memory.
  std::vector<AccessPtr> OrderedByProgram(const SeqNode* op, size_t first, size_t last);
  void RecordWhole(const Stmt& s, bool role, bool ordered, PendingAccesses* state);
  static Map<Buffer, int64_t> PlacesOf(const KernelLaunchNode* launch);
  void Order(const Buffer& tensor);
  bool IsBarrier(const Stmt& s) const;
  // Accesses of a processed statement up to the first barrier; true when none can pass beyond.
  bool Exposed(const Stmt& s, std::vector<AccessPtr>* out);
  const std::vector<AccessPtr>& AccessesOf(const Stmt& s) { return table_.Of(s, context_); }

  const KernelLaunchNode* launch_;
  bool between_statements_;
  Uniformity uniformity_;
  const BlockThreads& threads_;
  AccessContext context_;
  AccessTable table_;
  ConflictTable conflicts_;
  ProxyFences fences_;
  Team team_;
  // Among statements that barriers of the program order: those are its own affair, and threads of
  // one may wait for those of another.
  bool program_orders_ = false;
  std::vector<PendingAccesses> exits_;  // at the Breaks and Continues of the loops around
  std::unordered_set<const ffi::Object*> divergent_;  // statements treated as one
  int inserted_ = 0;                                  // barriers, so far
  Array<Buffer> ordered_tensors_;
};

bool SyncPlacer::IsBarrier(const Stmt& s) const {
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

Stmt SyncPlacer::Process(const Stmt& s, PendingAccesses* state) {
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

Stmt SyncPlacer::ProcessSeq(const SeqNode* op, PendingAccesses* state) {
  // From the first to the last statement that the program orders, nobody else orders their use of
  // tensor memory.
  size_t first = op->stmts.size();
  size_t last = 0;
  for (size_t i = 0; context_.tensor_memory.defined() && i < op->stmts.size(); ++i) {
    if (!UsesProgramBarrier(op->stmts[i])) continue;
    first = std::min(first, i);
    last = i;
  }
  std::vector<Stmt> stmts;
  auto append = [&](const std::vector<Stmt>& barriers) {
    stmts.insert(stmts.end(), barriers.begin(), barriers.end());
  };
  bool outer = program_orders_;
  for (size_t i = 0; i < op->stmts.size(); ++i) {
    const Stmt& child = op->stmts[i];
    if (i == first && first < last) {
      append(BarriersBefore(child.span(), OrderedByProgram(op, first, last), {}, true, state));
    }
    program_orders_ = outer || (first < last && first <= i && i <= last);
    append(BarriersBefore(child.span(), CopiesAfter(op, i), {}, false, state));
    Stmt processed = Process(child, state);
    // Barriers and the statement after them join this sequence.
    if (child->kind != StmtKind::kSeq) {
      append(BarriersOf(processed));
      processed = WithoutBarriers(processed);
    }
    stmts.push_back(processed);
  }
  program_orders_ = outer;
  return Seq(Array<Stmt>(stmts.begin(), stmts.end()), op->span);
}

std::vector<AccessPtr> SyncPlacer::CopiesAfter(const SeqNode* op, size_t fence) {
  std::vector<AccessPtr> result;
  // They stand between two fences.
  if (CalledBy(op->stmts[fence]) != "tl::tcgen05_after_thread_sync") return result;
  for (size_t i = fence + 1; i < op->stmts.size(); ++i) {
    if (CalledBy(op->stmts[i]) == "tl::tcgen05_before_thread_sync") return result;
    const std::vector<AccessPtr>& accesses = AccessesOf(op->stmts[i]);
    result.insert(result.end(), accesses.begin(), accesses.end());
  }
  return {};  // a fence after a wait
}

std::vector<AccessPtr> SyncPlacer::OrderedByProgram(const SeqNode* op, size_t first, size_t last) {
  std::vector<AccessPtr> result;
  auto group = team_.Group();
  for (size_t i = first; i <= last; ++i) {
    const Stmt& s = op->stmts[i];
    if (s->kind != StmtKind::kIf || (group && op::IsOperatorOf(s, *group))) continue;
    for (const AccessPtr& access : AccessesOf(s)) {
      if (access->buffer.IsTmem()) result.push_back(access);
    }
  }
  return result;
}

Stmt SyncPlacer::Leaf(const Stmt& s, PendingAccesses* state) {
  const std::vector<AccessPtr>& accesses = AccessesOf(s);
  if (const auto* bind = s.as<BindNode>()) context_.Bind(bind);
  PhaseUses phases = PhasesUsedIn(s);
  std::vector<Stmt> stmts = BarriersBefore(s.span(), accesses, phases.BegunAlone(), false, state);
  if (IsArrival(s) && fences_.Lacks(*state)) {
    stmts.push_back(op::Effect("fence_proxy_async", {}, s.span()));
    state->PassFence();
  }
  for (const AccessPtr& access : accesses) state->Add(Pending(access));
  state->phases().Pass(s, phases, threads_.count(), team_.Group());
  if (s->kind == StmtKind::kBreak || s->kind == StmtKind::kContinue) exits_.back().Merge(*state);
  if (IsBarrier(s)) state->PassBarrier(s.get());
  if (IsFence(s)) state->PassFence();
  if (WaitsOnMbarrier(s)) state->PassWait(MbarrierWaitedOn(s));
  if (WaitsForStores(s)) state->PassStoreWait();
  if (IsWgmmaCommit(s)) state->PassWgmmaCommit();
  if (auto left = WgmmaLeftBy(s)) state->PassWgmmaWait(*left, threads_);
  return Before(stmts, s);
}

// Tensors lie beyond shared memory, each in a range of its own.
Map<Buffer, int64_t> SyncPlacer::PlacesOf(const KernelLaunchNode* launch) {
  auto offsets = launch->attrs.find("smem_offsets");
  TL_CHECK(offsets != launch->attrs.end(), launch->span, "PlanSharedMemory must run first");
  auto places = (*offsets).second.cast<Map<Buffer, int64_t>>();
  constexpr int64_t kApart = int64_t{1} << 40;
  int64_t place = 0;
  for (const Buffer& tensor : SharedTensors(launch)) places.Set(tensor, place += kApart);
  return places;
}

void SyncPlacer::Order(const Buffer& tensor) {
  for (const Buffer& known : ordered_tensors_) {
    if (known.same_as(tensor)) return;
  }
  ordered_tensors_.push_back(tensor);
}

bool SyncPlacer::Waits(const PendingAccess& earlier, const AccessPtr& later, bool role) {
  const Buffer& buffer = later->buffer;
  if (earlier.by_role && (role || (program_orders_ && buffer.IsTmem()))) return false;
  bool programs = earlier.access->buffer.same_as(buffer) && !op::IsScratch(buffer);
  if (programs && !buffer.IsTmem() && !between_statements_) return false;
  return NeedsBarrier(earlier, later, threads_, &conflicts_);
}

op::ThreadRange SyncPlacer::GroupAt(const Span& span, const Buffer& conflict) const {
  auto group = team_.Group();
  if (group) return *group;
  std::string what = conflict.IsGlobal() ? "the same elements of " + std::string(conflict->name)
                     : conflict.IsTmem() ? "the same cells of tensor memory"
                                         : "the same elements of shared memory";
  TL_USER_ERROR(kSemantics, span,
                "threads that take this branch must wait for each other here, because they touch "
                    << what
                    << ", but the branch is not taken by whole warps of consecutive threads. Move "
                       "the statement out of the branch, or let warps take it as a whole");
}

// Null when none of the accesses conflicts with what is pending.
Stmt SyncPlacer::BarrierBetween(const Span& span, const std::vector<AccessPtr>& accesses, bool role,
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
  if (!conflict.defined()) return Stmt();
  op::ThreadRange group = GroupAt(span, conflict);
  Stmt barrier = op::SyncThreads(group, threads_.count(), span);
  if (fence) {
    fences_.Require(barrier.get());
    state->PassFence();
  }
  state->PassBarrier(barrier.get());
  state->phases().PassBarrier(group);
  return barrier;
}

std::vector<Stmt> SyncPlacer::BarriersBefore(const Span& span,
                                             const std::vector<AccessPtr>& accesses,
                                             const BarrierList& begun, bool role,
                                             PendingAccesses* state) {
  std::vector<Stmt> barriers;
  Stmt between = BarrierBetween(span, accesses, role, state);
  if (between.defined()) barriers.push_back(between);
  for (const Buffer& phase : begun) {
    if (!state->phases().Has(phase)) continue;
    op::ThreadRange waiting = state->phases().WaitingOn(phase);
    Stmt barrier = op::SyncThreads(waiting, threads_.count(), span);
    if (team_.Group() == waiting) state->PassBarrier(barrier.get());
    state->phases().PassBarrier(waiting);
    barriers.push_back(barrier);
  }
  inserted_ += static_cast<int>(barriers.size());
  for (const AccessPtr& access : accesses) {
    state->TakeFences(access, &conflicts_, [&](const ffi::Object* b) { fences_.Require(b); });
  }
  return barriers;
}

// A statement that some threads execute, each its part.
void SyncPlacer::RecordWhole(const Stmt& s, bool role, bool ordered, PendingAccesses* state) {
  EngineWaiters waiters(s, team_.threads, threads_);
  bool on_mbarrier = WaitsOnMbarrier(s);
  bool for_stores = WaitsForStores(s);
  state->PassWait(waiters.OfAny(), on_mbarrier, for_stores);
  for (const AccessPtr& access : AccessesOf(s)) {
    if (access->by_warpgroup) {
      state->Add({.access = access,
                  .by_role = role,
                  .complete = WaitsForWgmma(s),
                  .known = KnownToWarpgroup(*access, threads_)});
      continue;
    }
    PendingAccess pending = Pending(access);
    pending.by_role = role || (ordered && access->buffer.IsTmem());
    pending.complete = access->in_bulk_group ? for_stores : on_mbarrier;
    if (access->proxy == Proxy::kAsync) pending.known = waiters.Of(access->buffer);
    state->Add(pending);
  }
}

Stmt SyncPlacer::ProcessIf(const IfNode* op, PendingAccesses* state) {
  bool uniform = team_.arrives ? uniformity_.IsUniform(op->condition, team_.threads)
                               : uniformity_.IsUniform(op->condition);
  if (!uniform) return ProcessBranch(op, state);
  Stmt checked = Leaf(table_.Head(op->condition), state);
  PendingAccesses other = *state;
  context_.guards.push_back(op->condition);
  Stmt then_case = Process(op->then_case, state);
  context_.guards.back() = Not(op->condition);
  Stmt else_case = op->else_case.defined() ? Process(op->else_case, &other) : Stmt();
  context_.guards.pop_back();
  state->Merge(other);
  Stmt result = If(op->condition, then_case, else_case, op->span);
  return Before(BarriersOf(checked), result);
}

// A branch that some threads take: seen from outside it is one statement.
Stmt SyncPlacer::ProcessBranch(const IfNode* op, PendingAccesses* state) {
  Stmt whole = ffi::GetRef<Stmt>(op);
  bool role = IsRole(whole);
  auto group = team_.Group();
  bool own = group && op::IsOperatorOf(whole, *group);
  std::vector<AccessPtr> accesses = AccessesOf(whole);
  BarrierList begun = PhasesUsedIn(whole).BegunAlone();
  // Who learns from the tensor core that it is done may go on while others still wait.
  bool on_tensor_core =
      own && std::any_of(accesses.begin(), accesses.end(), [](const auto& access) {
        return access->buffer.IsTmem() && access->proxy == Proxy::kAsync;
      });
  if (on_tensor_core) {
    for (const Buffer& barrier : state->phases().OfProgram(*group)) begun.push_back(barrier);
  }
  bool ordered = program_orders_ && !own;
  std::vector<Stmt> before = BarriersBefore(
      op->span, ordered ? WithoutTensorMemory(accesses) : accesses, begun, role, state);
  ThreadSelection chosen = threads_.Select(op->condition, team_.threads);
  bool together = team_.arrives;
  for (const Expr& part : chosen.rest) {
    together = together && uniformity_.IsUniform(part, chosen.threads);
  }
  bool known = chosen.rest.empty();
  OpenPhases after_then = state->phases();
  OpenPhases after_else = state->phases();
  Stmt then_case =
      ProcessTeamOnly(op->then_case, op->condition, {chosen.threads, together}, &after_then);
  Stmt else_case;
  if (op->else_case.defined()) {
    ThreadSet others = known ? team_.threads - chosen.threads : team_.threads;
    else_case = ProcessTeamOnly(op->else_case, Not(op->condition), {others, team_.arrives && known},
                                &after_else);
  }
  if (known) {
    after_then = OpenPhases::AfterSides(then_case, after_then, else_case, after_else);
  } else {
    after_then.Merge(after_else);
  }
  state->phases() = after_then;
  Stmt result = If(op->condition, then_case, else_case, op->span);
  table_.Set(result, context_, accesses);
  divergent_.insert(result.get());
  RecordWhole(result, role, ordered, state);
  return Before(before, result);
}

Stmt SyncPlacer::ProcessTeamOnly(const Stmt& body, const Expr& condition, const Team& team,
                                 OpenPhases* phases) {
  Team outer = std::exchange(team_, team);
  // In a branch of some threads they synchronize among themselves.
  bool program_orders = std::exchange(program_orders_, false);
  context_.guards.push_back(condition);
  PendingAccesses inside;
  inside.phases() = *phases;
  Stmt result = Process(body, &inside);
  *phases = inside.phases();
  context_.guards.pop_back();
  program_orders_ = program_orders;
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
Stmt SyncPlacer::ProcessIteration(const Stmt& loop, PendingAccesses* state) {
  const auto* op = loop.as<ForNode>();
  const auto* while_op = loop.as<WhileNode>();
  bool constant = op != nullptr && AsInt(op->min) && AsInt(op->extent);
  if (constant) context_.loops.push_back({op->var, *AsInt(op->min), *AsInt(op->extent)});
  exits_.emplace_back();
  Stmt body = Process(op != nullptr ? op->body : while_op->body, state);
  // The condition of the next iteration is read after the body.
  const Stmt& head = table_.Head(op != nullptr ? op->extent : while_op->condition);
  std::vector<Stmt> last = BarriersOf(Leaf(head, state));
  if (!last.empty()) body = Seq({body, op::Sequence(last, body.span())}, body.span());
  state->Merge(exits_.back());
  exits_.pop_back();
  if (constant) context_.loops.pop_back();
  return WithBody(loop, body);
}

// Processes the body until no more barriers come for what earlier iterations leave: `carried`.
Stmt SyncPlacer::ProcessBody(const Stmt& loop, PendingAccesses* carried) {
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

Stmt SyncPlacer::ProcessLoop(const Stmt& loop, PendingAccesses* state) {
  if (!uniformity_.IsUniformLoop(loop.get())) return ProcessDivergentLoop(loop, state);
  PendingAccesses carried;
  Stmt result = ProcessBody(loop, &carried);
  std::vector<AccessPtr> exposed;
  Exposed(result, &exposed);
  // Where iterations leave a phase open a barrier stands in the loop anyway.
  BarrierList begun = PhasesUsedIn(result).begun;
  std::erase_if(begun, [&](const Buffer& barrier) { return carried.phases().Has(barrier); });
  std::vector<Stmt> stmts = BarriersBefore(loop.span(), exposed, begun, false, state);
  // The first iteration finds what the statements before the loop left.
  PendingAccesses before = *state;
  state->Merge(carried);
  result = ProcessIteration(result, state);
  state->SetCarried(false);
  const auto* op = loop.as<ForNode>();
  bool runs = op != nullptr && AsInt(op->extent).value_or(0) > 0;
  if (!runs) state->Merge(before);
  return Before(stmts, result);
}

// A loop that its threads run a different number of times: seen from outside it is one statement.
Stmt SyncPlacer::ProcessDivergentLoop(const Stmt& loop, PendingAccesses* state) {
  std::vector<AccessPtr> whole = AccessesOf(loop);
  std::vector<Stmt> before = BarriersBefore(loop.span(), whole, {}, false, state);
  Team outer = team_;
  team_.arrives = false;
  PendingAccesses carried;
  carried.phases() = state->phases();
  Stmt result = ProcessBody(loop, &carried);
  state->phases().Merge(carried.phases());
  team_ = outer;
  table_.Set(result, context_, whole);
  divergent_.insert(result.get());
  uniformity_.MarkLoop(result.get());
  RecordWhole(result, false, program_orders_, state);
  return Before(before, result);
}

bool SyncPlacer::Exposed(const Stmt& s, std::vector<AccessPtr>* out) {
  auto add = [&](const Stmt& part) {
    std::vector<AccessPtr> accesses = table_.Anywhere(part, context_);
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
    add(table_.Head(op->extent));
    return Exposed(op->body, out) && AsInt(op->extent).value_or(0) > 0;
  }
  if (const auto* op = s.as<WhileNode>()) {
    add(table_.Head(op->condition));
    Exposed(op->body, out);
    return false;
  }
  if (const auto* op = s.as<IfNode>()) {
    add(table_.Head(op->condition));
    bool then_passes = Exposed(op->then_case, out);
    return op->else_case.defined() && Exposed(op->else_case, out) && then_passes;
  }
  add(s);
  return IsBarrier(s);
}

class Launches : public StmtMutator {
 public:
  explicit Launches(bool between_statements) : between_statements_(between_statements) {}
  using StmtMutator::Rewrite;
  Stmt Rewrite(const KernelLaunchNode* op) override {
    SyncPlacer inserter(op, between_statements_);
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

Func PlaceSynchronization(const Func& func, bool between_statements) {
  return func.WithBody(Launches(between_statements).MutateStmt(func->body));
}

TVM_FFI_STATIC_INIT_BLOCK() {
  ffi::reflection::GlobalDef().def("tl.transform.PlaceSynchronization",
                                   [](Func func) { return PlaceSynchronization(func); });
}

}  // namespace tilelang::sync
