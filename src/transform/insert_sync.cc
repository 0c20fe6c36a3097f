#include "transform/insert_sync.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/error.h"
#include "ir/visitor.h"
#include "op/issue.h"
#include "op/thread_sync.h"
#include "transform/shared_access.h"
#include "transform/uniformity.h"

namespace tilelang::transform {

using namespace ir;  // NOLINT(google-build-using-namespace)

namespace {

// Who passes a barrier: the whole CTA, a range of warps inside a branch, or nobody can.
struct Team {
  enum Kind { kCta, kWarps, kNone } kind = kCta;
  ThreadRange range;
};

Stmt MakeBarrier(const Team& team, int64_t cta_threads, const Span& span) {
  op::ThreadRange threads{0, cta_threads};
  if (team.kind == Team::kWarps) threads = {team.range.first, team.range.count};
  return op::SyncThreads(threads, cta_threads, span);
}

// What has happened since the last barrier.
struct Pending {
  AccessPtr access;
  bool carried = false;  // in an earlier iteration of the innermost loop
  bool by_role = false;  // in a branch that orders itself by mbarriers
};
// A store by threads that the async proxy has not been told of, and the first barrier after it.
struct Unfenced {
  AccessPtr access;
  const ffi::Object* barrier = nullptr;
};
struct State {
  std::vector<Pending> pending;
  std::vector<Unfenced> unfenced;

  void Merge(const State& other) {
    for (const Pending& p : other.pending) {
      bool known = false;
      for (const Pending& q : pending) known |= q.access == p.access && q.carried == p.carried;
      if (!known) pending.push_back(p);
    }
    for (const Unfenced& u : other.unfenced) {
      bool known = false;
      for (const Unfenced& v : unfenced) known |= v.access == u.access && v.barrier == u.barrier;
      if (!known) unfenced.push_back(u);
    }
  }
};

bool HasCall(const Stmt& s, const std::function<bool(const CallNode*, const Intrinsic*)>& test) {
  bool found = false;
  WalkExprs(s, [&](const Expr& e) {
    if (const auto* call = e.as<CallNode>()) {
      found |= test(call, FindIntrinsic({call->name.data(), call->name.size()}));
    }
    return !found;
  });
  return found;
}

bool WaitsOnBarriers(const Stmt& s) {
  return HasCall(s, [](const CallNode*, const Intrinsic* intrinsic) {
    return intrinsic != nullptr && intrinsic->sync == SyncKind::kBarrier;
  });
}

// Waits for other warps: on a barrier of the program. Those who wait on the compiler's barriers
// issued the work themselves, which orders them with nobody else.
bool IsRole(const Stmt& s) {
  return HasCall(s, [](const CallNode* call, const Intrinsic* intrinsic) {
    if (intrinsic == nullptr || intrinsic->sync != SyncKind::kBarrier) return false;
    bool own = false;
    WalkExprs(call->args[0], [&](const Expr& e) {
      const auto* load = e.as<LoadNode>();
      own |= load != nullptr && op::ThreadsWaitingOn(load->buffer).has_value();
      return true;
    });
    return !own;
  });
}

bool IsFence(const Stmt& s) {
  const auto* op = s.as<EvaluateNode>();
  const auto* call = op != nullptr ? op->value.as<CallNode>() : nullptr;
  return call != nullptr && call->name == "fence_proxy_async";
}

bool LeavesEarly(const Stmt& body) {
  bool found = false;
  WalkStmts(body, [&](const Stmt& s) {
    found |= s->kind == StmtKind::kBreak || s->kind == StmtKind::kContinue;
    return !found;
  });
  return found;
}

class SyncInserter {
 public:
  explicit SyncInserter(const KernelLaunchNode* launch) : launch_(launch), uniformity_(launch) {
    auto offsets = launch->attrs.find("smem_offsets");
    TL_CHECK(offsets != launch->attrs.end(), launch->span, "PlanSharedMemory must run first");
    offsets_ = (*offsets).second.cast<Map<Buffer, int64_t>>();
    for (size_t i = 0; i < launch->thread_vars.size(); ++i) {
      context_.threads.push_back({launch->thread_vars[i], 0, *AsInt(launch->threads[i])});
      cta_threads_ *= *AsInt(launch->threads[i]);
    }
  }

  Stmt Run() {
    State state;
    return Fenced(Process(launch_->body, &state));
  }

 private:
  Stmt Process(const Stmt& s, State* state);
  Stmt ProcessSeq(const SeqNode* op, State* state);
  Stmt ProcessIf(const IfNode* op, State* state);
  Stmt ProcessBranch(const IfNode* op, State* state);
  Stmt ProcessLoop(const Stmt& loop, State* state);
  Stmt ProcessBody(const Stmt& body, const Expr& condition, State* at_end);
  Stmt ProcessTeamOnly(const Stmt& body, const Expr& condition);
  Stmt Leaf(const Stmt& s, State* state);

  // Puts a barrier before `s` when `accesses` conflict with what is pending.
  Stmt Guarded(const Stmt& s, const std::vector<AccessPtr>& accesses, bool role, State* state);
  void Record(const std::vector<AccessPtr>& accesses, bool role, State* state);
  void PassBarrier(const ffi::Object* barrier, State* state);
  void RequireFences(const AccessPtr& access, State* state);
  bool IsBarrier(const Stmt& s) const;
  // Accesses of a processed statement up to the first barrier; true when none can pass beyond.
  bool Exposed(const Stmt& s, std::vector<AccessPtr>* out);
  const std::vector<AccessPtr>& AccessesOf(const Stmt& s);
  Stmt Fenced(const Stmt& s) const;

  const KernelLaunchNode* launch_;
  Uniformity uniformity_;
  Map<Buffer, int64_t> offsets_;
  AccessContext context_;
  int64_t cta_threads_ = 1;
  Team team_;
  std::unordered_map<const ffi::Object*, std::vector<AccessPtr>> accesses_;
  std::vector<Stmt> alive_;   // the keys of accesses_
  std::vector<State> exits_;  // at the Breaks and Continues of the loops around
  std::unordered_set<const ffi::Object*> divergent_;    // statements treated as one
  std::unordered_set<const ffi::Object*> needs_fence_;  // barriers
};

const std::vector<AccessPtr>& SyncInserter::AccessesOf(const Stmt& s) {
  auto [it, is_new] = accesses_.try_emplace(s.get());
  if (is_new) {
    alive_.push_back(s);
    CollectAccesses(s, context_, offsets_, &it->second);
  }
  return it->second;
}

bool SyncInserter::IsBarrier(const Stmt& s) const {
  if (s->kind != StmtKind::kEvaluate && s->kind != StmtKind::kBind && s->kind != StmtKind::kStore) {
    return false;
  }
  return HasCall(s, [&](const CallNode* call, const Intrinsic* intrinsic) {
    if (intrinsic == nullptr) return false;
    bool one_warp = team_.kind == Team::kWarps && team_.range.count == 32;
    if (intrinsic->sync == SyncKind::kWarp) return one_warp || team_.kind == Team::kNone;
    if (intrinsic->sync != SyncKind::kCta) return false;
    bool range = call->name == "sync_range";
    if (!range && (call->name != "sync_threads" || call->args.empty())) return true;
    int64_t count = AsInt(call->args[1]).value_or(-1);
    if (team_.kind != Team::kWarps) return count == cta_threads_;
    bool same = !range || AsInt(call->args[0]) == team_.range.first;
    return same && count == team_.range.count;
  });
}

Stmt SyncInserter::Process(const Stmt& s, State* state) {
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

Stmt SyncInserter::ProcessSeq(const SeqNode* op, State* state) {
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

Stmt SyncInserter::Leaf(const Stmt& s, State* state) {
  const std::vector<AccessPtr>& accesses = AccessesOf(s);
  if (const auto* bind = s.as<BindNode>()) {
    context_.values.Set(bind->var, Substitute(bind->value, context_.values));
  }
  Stmt result = accesses.empty() ? s : Guarded(s, accesses, false, state);
  Record(accesses, false, state);
  if (s->kind == StmtKind::kBreak || s->kind == StmtKind::kContinue) exits_.back().Merge(*state);
  if (IsBarrier(s)) PassBarrier(s.get(), state);
  if (IsFence(s)) state->unfenced.clear();
  if (WaitsOnBarriers(s)) {
    std::erase_if(state->pending,
                  [](const Pending& p) { return p.access->proxy == Proxy::kAsync; });
  }
  return result;
}

Stmt SyncInserter::Guarded(const Stmt& s, const std::vector<AccessPtr>& accesses, bool role,
                           State* state) {
  bool conflict = false;
  bool fence = false;
  for (const AccessPtr& access : accesses) {
    for (const Pending& p : state->pending) {
      if (p.by_role && role) continue;
      if (!MayConflict(*p.access, *access, p.carried)) continue;
      conflict = true;
      fence |=
          p.access->write && p.access->proxy == Proxy::kGeneric && access->proxy == Proxy::kAsync;
    }
  }
  if (!conflict) {
    for (const AccessPtr& access : accesses) RequireFences(access, state);
    return s;
  }
  if (team_.kind == Team::kNone) {
    TL_USER_ERROR(kSemantics, s.span(),
                  "threads that take this branch must wait for each other here, because they touch "
                  "the same elements of shared memory, but the branch is not taken by whole warps "
                  "of consecutive threads. Move the statement out of the branch, or let warps take "
                  "it as a whole");
  }
  Stmt barrier = MakeBarrier(team_, cta_threads_, s.span());
  PassBarrier(barrier.get(), state);
  if (fence) {
    needs_fence_.insert(barrier.get());
    state->unfenced.clear();
  }
  for (const AccessPtr& access : accesses) RequireFences(access, state);
  return Seq({barrier, s}, s.span());
}

void SyncInserter::Record(const std::vector<AccessPtr>& accesses, bool role, State* state) {
  State added;
  for (const AccessPtr& access : accesses) {
    added.pending.push_back({access, false, role});
    if (access->write && access->proxy == Proxy::kGeneric) added.unfenced.push_back({access});
  }
  state->Merge(added);
}

void SyncInserter::PassBarrier(const ffi::Object* barrier, State* state) {
  std::erase_if(state->pending,
                [](const Pending& p) { return p.access->proxy == Proxy::kGeneric; });
  for (Unfenced& store : state->unfenced) {
    if (store.barrier == nullptr) store.barrier = barrier;
  }
}

// Stores before an asynchronous access of the same bytes are fenced before their barrier.
void SyncInserter::RequireFences(const AccessPtr& access, State* state) {
  if (access->proxy != Proxy::kAsync) return;
  std::unordered_set<const ffi::Object*> fenced;
  for (const Unfenced& store : state->unfenced) {
    if (store.barrier != nullptr && MayConflict(*store.access, *access, true)) {
      fenced.insert(store.barrier);
    }
  }
  std::erase_if(state->unfenced, [&](const Unfenced& u) { return fenced.count(u.barrier) != 0; });
  needs_fence_.insert(fenced.begin(), fenced.end());
}

Stmt SyncInserter::ProcessIf(const IfNode* op, State* state) {
  bool uniform =
      team_.kind == Team::kWarps
          ? uniformity_.IsUniform(op->condition,
                                  uniformity_.threads().Of({team_.range.first, team_.range.count}))
          : uniformity_.IsUniform(op->condition);
  if (!uniform) return ProcessBranch(op, state);
  Stmt head = Evaluate(op->condition, op->span);
  Stmt checked = Leaf(head, state);
  State other = *state;
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
Stmt SyncInserter::ProcessBranch(const IfNode* op, State* state) {
  Stmt whole = ffi::GetRef<Stmt>(op);
  bool role = IsRole(whole);
  std::vector<AccessPtr> accesses = AccessesOf(whole);
  Stmt then_case = ProcessTeamOnly(op->then_case, op->condition);
  Stmt else_case =
      op->else_case.defined() ? ProcessTeamOnly(op->else_case, Not(op->condition)) : Stmt();
  Stmt result = If(op->condition, then_case, else_case, op->span);
  alive_.push_back(result);
  accesses_[result.get()] = accesses;
  divergent_.insert(result.get());
  Stmt guarded = Guarded(result, accesses, role, state);
  Record(accesses, role, state);
  return guarded;
}

Stmt SyncInserter::ProcessTeamOnly(const Stmt& body, const Expr& condition) {
  Team outer = team_;
  ThreadRange range = ThreadsWhere(condition, context_);
  bool warps = range.count > 0 && range.first % 32 == 0 && range.count % 32 == 0;
  if (team_.kind == Team::kWarps) {
    int64_t end = std::min(range.first + range.count, team_.range.first + team_.range.count);
    range.first = std::max(range.first, team_.range.first);
    range.count = end - range.first;
    warps &= range.count > 0;
  }
  team_ = warps && team_.kind != Team::kNone ? Team{Team::kWarps, range} : Team{Team::kNone, {}};
  context_.guards.push_back(condition);
  State inside;
  Stmt result = Process(body, &inside);
  context_.guards.pop_back();
  team_ = outer;
  return result;
}

// Processes the body until no more barriers come for what earlier iterations left pending;
// `at_end`: what is pending when the loop ends.
Stmt SyncInserter::ProcessBody(const Stmt& body, const Expr& condition, State* at_end) {
  Stmt head = Evaluate(condition, condition.span());
  Stmt result = body;
  State carried;
  for (int round = 0; round < 3; ++round) {
    State state = carried;
    exits_.emplace_back();
    result = Process(result, &state);
    // The condition of the next iteration is read after the body.
    const auto* pair = Leaf(head, &state).as<SeqNode>();
    if (pair != nullptr) result = Seq({result, pair->stmts[0]}, result.span());
    state.Merge(exits_.back());
    exits_.pop_back();
    *at_end = state;
    carried = state;
    for (Pending& p : carried.pending) p.carried = true;
  }
  for (Pending& p : at_end->pending) p.carried = false;
  return result;
}

Stmt SyncInserter::ProcessLoop(const Stmt& loop, State* state) {
  const auto* op = loop.as<ForNode>();
  const auto* while_op = loop.as<WhileNode>();
  Team outer = team_;
  bool divergent = !uniformity_.IsUniformLoop(loop.get());
  std::vector<AccessPtr> whole;
  if (divergent) {
    whole = AccessesOf(loop);
    team_ = {Team::kNone, {}};
  }
  bool constant = op != nullptr && AsInt(op->min) && AsInt(op->extent);
  if (constant) context_.loops.push_back({op->var, *AsInt(op->min), *AsInt(op->extent)});
  State inside;
  Stmt body = ProcessBody(op != nullptr ? op->body : while_op->body,
                          op != nullptr ? op->extent : while_op->condition, &inside);
  if (constant) context_.loops.pop_back();
  team_ = outer;
  Stmt result =
      op != nullptr
          ? Stmt(For(op->var, op->min, op->extent, op->Kind(), body, op->annotations, op->span))
          : Stmt(While(while_op->condition, body, while_op->span));
  std::vector<AccessPtr> exposed;
  bool passes = false;
  if (divergent) {
    alive_.push_back(result);
    accesses_[result.get()] = exposed = whole;
    divergent_.insert(result.get());
    inside = State();
    Record(whole, false, &inside);
    uniformity_.MarkLoop(result.get());
  } else {
    passes = Exposed(result, &exposed) && !LeavesEarly(body);
  }
  Stmt guarded = Guarded(result, exposed, false, state);
  if (passes) state->pending.clear();
  state->Merge(inside);
  return guarded;
}

bool SyncInserter::Exposed(const Stmt& s, std::vector<AccessPtr>* out) {
  auto add = [&](const Stmt& part) {
    const std::vector<AccessPtr>& accesses = AccessesOf(part);
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
    add(Evaluate(op->extent));
    return Exposed(op->body, out) && AsInt(op->extent).value_or(0) > 0;
  }
  if (const auto* op = s.as<WhileNode>()) {
    add(Evaluate(op->condition));
    Exposed(op->body, out);
    return false;
  }
  if (const auto* op = s.as<IfNode>()) {
    add(Evaluate(op->condition));
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
  using StmtMutator::Rewrite;
  Stmt Rewrite(const KernelLaunchNode* op) override {
    return KernelLaunch(op->block_vars, op->grid, op->thread_vars, op->threads, op->attrs,
                        SyncInserter(op).Run(), op->span);
  }
};

}  // namespace

Func InsertSync(const Func& func) { return func.WithBody(Launches().MutateStmt(func->body)); }

TVM_FFI_STATIC_INIT_BLOCK() {
  ffi::reflection::GlobalDef().def("tl.transform.InsertSync",
                                   [](Func func) { return InsertSync(func); });
}

}  // namespace tilelang::transform
