#include "sync/tensor_order.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <utility>

#include "analysis/call_order.h"
#include "ir/async.h"
#include "ir/visitor.h"
#include "op/effect.h"
#include "op/issue.h"
#include "op/thread_sync.h"
#include "sync/handovers.h"
#include "target/warp.h"

namespace tilelang::sync {

using namespace analysis;  // NOLINT(google-build-using-namespace)
using namespace ir;        // NOLINT(google-build-using-namespace)

namespace {

using Accesses = std::vector<AccessPtr>;  // none twice

void AddTo(Accesses* accesses, const Accesses& more) {
  for (const AccessPtr& access : more) {
    bool known = std::find(accesses->begin(), accesses->end(), access) != accesses->end();
    if (!known) accesses->push_back(access);
  }
}

// Of a thread, at one point of the program, on any path to it.
struct State {
  Accesses stored;    // by tcgen05.st, not waited for
  Accesses unfenced;  // by tcgen05.ld and st, since the last fence::before
  Accesses unsynced;  // the same since threads synchronized
  Accesses acquired;  // of others, by synchronization since the last fence::after

  void Merge(const State& other) {
    AddTo(&stored, other.stored);
    AddTo(&unfenced, other.unfenced);
    AddTo(&unsynced, other.unsynced);
    AddTo(&acquired, other.acquired);
  }
  size_t Size() const {
    return stored.size() + unfenced.size() + unsynced.size() + acquired.size();
  }
};

// Kinds of what is inserted: wait::st and fence::before; fence::after.
constexpr size_t kRelease = 0;
constexpr size_t kAcquire = 1;

class TensorOrder {
 public:
  TensorOrder(const BlockThreads& threads, const AccessContext& context, AccessTable* table,
              ConflictTable* conflicts)
      : threads_(threads),
        context_(context),
        table_(table),
        conflicts_(conflicts),
        handovers_(threads),
        team_(threads.All()) {}

  Stmt Run(const Stmt& body) {
    State state;
    Block(body, &state);  // to know all barriers
    state = {};
    return Block(body, &state);
  }

 private:
  using Stmts = std::vector<Stmt>;
  // A statement with what it needs, how much of each kind that is, and the state after it.
  struct Placed {
    Stmt stmt;
    State state;
    int inserted[2] = {0, 0};
  };
  using Place = std::function<Stmt(State*)>;

  Stmt Block(const Stmt& s, State* state) {
    Stmts stmts;
    if (const auto* seq = s.as<SeqNode>()) {
      for (const Stmt& child : seq->stmts) Append(child, state, &stmts);
      return Seq(Array<Stmt>(stmts.begin(), stmts.end()), seq->span);
    }
    Append(s, state, &stmts);
    return stmts.size() == 1 ? stmts[0] : op::Sequence(stmts, s.span());
  }

  void Append(const Stmt& s, State* state, Stmts* out) {
    if (const auto* bind = s.as<BindNode>()) context_.Bind(bind);
    if (!Matters(s)) return out->push_back(s);
    if (s->kind == StmtKind::kSeq) return out->push_back(Block(s, state));
    if (const auto* issue = s.as<IssueNode>()) {
      Stmt body = Block(issue->body, state);
      return out->push_back(Issue(body, issue->completion, issue->span, issue->awaited));
    }
    if (const auto* branch = s.as<IfNode>()) return Branch(branch, state, out);
    const auto* loop = s.as<ForNode>();
    bool vectorized = loop != nullptr && loop->Kind() == ForKind::kVectorized;
    if (s->kind == StmtKind::kWhile || (loop != nullptr && !vectorized)) {
      return Before(s, true, [&](State* entry) { return Loop(s, entry); }, state, out);
    }
    Leaf(s, state, out);
  }

  // A compound statement: what only accesses before it need in it stands before it.
  void Before(const Stmt& s, bool acquires, const Place& place, State* state, Stmts* out) {
    Placed all = Try(place, *state);
    for (size_t kind : {kRelease, kAcquire}) {
      if (kind == kAcquire && !acquires) continue;
      State without = *state;
      Stmts first;
      int inserted = kind == kRelease ? Release(&without, &first, s.span())
                                      : Acquire(&without, &first, s.span());
      if (inserted == 0) continue;
      Placed other = Try(place, without);
      if (other.inserted[kind] >= all.inserted[kind]) continue;
      out->insert(out->end(), first.begin(), first.end());
      inserted_[kind] += inserted;
      *state = std::move(without);
      all = std::move(other);
    }
    for (size_t kind : {kRelease, kAcquire}) inserted_[kind] += all.inserted[kind];
    *state = std::move(all.state);
    out->push_back(all.stmt);
  }

  Placed Try(const Place& place, State state) {
    int before[2] = {inserted_[0], inserted_[1]};
    Placed placed;
    placed.stmt = place(&state);
    placed.state = std::move(state);
    for (size_t kind : {kRelease, kAcquire}) {
      placed.inserted[kind] = inserted_[kind] - before[kind];
      inserted_[kind] = before[kind];
    }
    return placed;
  }

  void Branch(const IfNode* op, State* state, Stmts* out) {
    Leaf(table_->Head(op->condition), state, out);
    out->pop_back();
    // Threads that do not take it may have its fence as well, if they belong to the same warp or
    // take it another time.
    bool acquires =
        op::IsElection(op->condition) || threads_.Select(op->condition, team_).threads == team_;
    Before(
        ffi::GetRef<Stmt>(op), acquires, [&](State* entry) { return Sides(op, entry); }, state,
        out);
  }

  Stmt Sides(const IfNode* op, State* state) {
    ThreadSelection chosen = threads_.Select(op->condition, team_);
    ThreadSet others = chosen.rest.empty() ? team_ - chosen.threads : team_;
    auto side = [&](const Stmt& body, const Expr& condition, const ThreadSet& team, State* after) {
      ThreadSet outer = std::exchange(team_, team);
      context_.guards.push_back(condition);
      Stmt result = Block(body, after);
      context_.guards.pop_back();
      team_ = std::move(outer);
      return result;
    };
    State other = *state;
    Stmt then_case = side(op->then_case, op->condition, chosen.threads, state);
    Stmt else_case;
    if (op->else_case.defined()) {
      else_case = side(op->else_case, Not(op->condition), others, &other);
    }
    if (!others.IsEmpty()) state->Merge(other);
    return If(op->condition, then_case, else_case, op->span);
  }

  Stmt Loop(const Stmt& loop, State* state) {
    const auto* op = loop.as<ForNode>();
    const Stmt& body = op != nullptr ? op->body : loop.as<WhileNode>()->body;
    bool constant = op != nullptr && AsInt(op->min) && AsInt(op->extent);
    if (constant) context_.loops.push_back({op->var, *AsInt(op->min), *AsInt(op->extent)});
    State entry = *state;
    Placed placed;
    for (size_t size = entry.Size() + 1; size != entry.Size();) {
      size = entry.Size();
      placed = Try([&](State* after) { return Iteration(loop, body, after); }, entry);
      entry.Merge(placed.state);
    }
    for (size_t kind : {kRelease, kAcquire}) inserted_[kind] += placed.inserted[kind];
    if (constant) context_.loops.pop_back();
    bool runs = constant && *AsInt(op->extent) > 0;
    *state = runs ? std::move(placed.state) : std::move(entry);
    if (op == nullptr) return While(loop.as<WhileNode>()->condition, placed.stmt, loop.span());
    return For(op->var, op->min, op->extent, op->Kind(), placed.stmt, op->annotations, op->span);
  }

  // One, and what the next one asks for at its beginning.
  Stmt Iteration(const Stmt& loop, const Stmt& body, State* state) {
    exits_.emplace_back();
    Stmt result = Block(body, state);
    state->Merge(exits_.back());
    exits_.pop_back();
    const auto* op = loop.as<WhileNode>();
    if (op == nullptr) return result;
    Stmts last = {result};
    Leaf(table_->Head(op->condition), state, &last);
    last.pop_back();
    return last.size() == 1 ? result : op::Sequence(last, body.span());
  }

  void Leaf(const Stmt& s, State* state, Stmts* out) {
    if (s->kind == StmtKind::kBreak || s->kind == StmtKind::kContinue) exits_.back().Merge(*state);
    if (const auto* wait = s.as<WaitNode>(); wait != nullptr)
      WaitOn(wait->completion->barrier, state);
    Accesses own;
    if (UsesTensorMemory(s)) {
      for (const AccessPtr& access : table_->Of(s, context_)) {
        if (access->buffer.IsTmem()) own.push_back(access);
      }
    }
    for (const AccessPtr& access : own) {
      handovers_.AddAccess(access);
      if (access->proxy == Proxy::kGeneric && MustWait(*state, *access)) {
        WaitForStores(state, out, s.span());
      }
      if (MustAcquire(*state, access)) inserted_[kAcquire] += Acquire(state, out, s.span());
    }
    for (const AccessPtr& access : own) {
      if (access->proxy == Proxy::kAsync) continue;
      AddTo(&state->unfenced, {access});
      AddTo(&state->unsynced, {access});
      if (access->write) AddTo(&state->stored, {access});
    }
    WalkExprs(s, [&](const Expr& e) {
      if (const auto* call = e.as<CallNode>()) Synchronize(call, s.span(), state, out);
      return true;
    });
    if (IsCallThat(s, CallOrder::kUnknown)) {
      inserted_[kRelease] += Release(state, out, s.span());
      AddTo(&state->acquired, handovers_.All());
    }
    out->push_back(s);
  }

  // What a call does to the order of accesses; before it stands what it needs.
  void Synchronize(const CallNode* call, const Span& span, State* state, Stmts* out) {
    CallOrder order = OrderOf(call);
    bool barrier =
        order == CallOrder::kBlock || order == CallOrder::kWarp || order == CallOrder::kWarpgroups;
    // A commit tells of the tensor core alone.
    if (barrier || ArrivesForOthers(call) || order == CallOrder::kArrive) {
      inserted_[kRelease] += Release(state, out, span);
    }
    if (barrier) Meet(call, order, state);
    handovers_.AddCall(call, team_);
    if (WaitsForPhase(order)) WaitOn(MbarrierOf(call), state);
    if (order == CallOrder::kTensorBefore) {
      WaitForStores(state, out, span);
      state->unfenced.clear();
    }
    if (order == CallOrder::kTensorAfter) state->acquired.clear();
  }

  // The threads of a barrier synchronize.
  void Meet(const CallNode* call, CallOrder order, State* state) {
    AddTo(&state->acquired, state->unsynced);
    auto number = [&](size_t i) { return AsInt(call->args[i]).value_or(-1); };
    bool all = true;
    if (call->name == "sync_range") {
      all = threads_.Of({number(0), number(1)}).Contains(team_);
    } else if (call->name == "sync_threads" && !call->args.empty()) {
      all = number(1) == threads_.count();
      // Others that the program has chosen may be among them.
      if (!all) AddTo(&state->acquired, handovers_.All());
    } else if (order != CallOrder::kBlock) {
      all = order == CallOrder::kWarp && team_.Count() <= kWarp;
    }
    if (all) state->unsynced.clear();
  }

  void WaitOn(const Buffer& barrier, State* state) {
    if (!barrier.defined()) return;
    handovers_.AddWait(barrier, team_);
    AddTo(&state->acquired, handovers_.To(barrier, team_));
  }

  bool MustAcquire(const State& state, const AccessPtr& access) {
    return std::any_of(state.acquired.begin(), state.acquired.end(), [&](const AccessPtr& p) {
      bool engine = p->proxy == Proxy::kAsync && access->proxy == Proxy::kAsync;
      // The pipe of one issuer is in order.
      if (engine && p->actors == access->actors) return false;
      return conflicts_->MayConflict(p, access, true);
    });
  }

  // Whether a load reads what is being stored, or needs the registers.
  static bool MustWait(const State& state, const MemoryAccess& load) {
    constexpr int64_t kMostInFlight = 128;
    if (!load.read) return false;
    int64_t registers = load.registers;
    bool stored = false;
    for (const AccessPtr& store : state.stored) {
      registers += store->registers;
      stored |= ShareCells(*store, load);
    }
    return stored || (!state.stored.empty() && registers > kMostInFlight);
  }

  // These say how many statements they add. Stores wait for themselves.
  int Release(State* state, Stmts* out, const Span& span) {
    int inserted = WaitFor(state, out, span);
    if (state->unfenced.empty()) return inserted;
    state->unfenced.clear();
    out->push_back(op::DeviceEffect("tcgen_05.h", "tcgen05_before_thread_sync", {}, span));
    return inserted + 1;
  }
  int WaitFor(State* state, Stmts* out, const Span& span) {
    if (state->stored.empty()) return 0;
    state->stored.clear();
    out->push_back(op::DeviceEffect("tcgen_05_st.h", "tcgen05_wait_st", {}, span));
    return 1;
  }
  void WaitForStores(State* state, Stmts* out, const Span& span) {
    inserted_[kRelease] += WaitFor(state, out, span);
  }
  int Acquire(State* state, Stmts* out, const Span& span) {
    if (state->acquired.empty()) return 0;
    state->acquired.clear();
    out->push_back(op::DeviceEffect("tcgen_05.h", "tcgen05_after_thread_sync", {}, span));
    return 1;
  }

  static bool UsesTensorMemory(const Stmt& s) {
    return HasCall(s, [](const CallNode* call) { return call->attrs.count("tmem") != 0; });
  }
  // Whether a statement touches tensor memory, synchronizes or leaves a loop.
  bool Matters(const Stmt& s) {
    auto [it, is_new] = matters_.try_emplace(s, false);
    if (!is_new) return it->second;
    bool found = false;
    WalkStmts(s, [&](const Stmt& part) {
      found |= part->kind == StmtKind::kBreak || part->kind == StmtKind::kContinue ||
               part->kind == StmtKind::kWait;
      return !found;
    });
    found = found || HasCall(s, [](const CallNode* call) {
              return call->attrs.count("tmem") != 0 || OrderOf(call) != CallOrder::kNone;
            });
    return matters_[s] = found;
  }

  const BlockThreads& threads_;
  AccessContext context_;
  AccessTable* table_;
  ConflictTable* conflicts_;
  Handovers handovers_;
  ThreadSet team_;
  std::vector<State> exits_;  // at the Breaks and Continues of the loops around
  int inserted_[2] = {0, 0};  // so far, of each kind
  std::unordered_map<Stmt, bool, ffi::ObjectPtrHash, ffi::ObjectPtrEqual> matters_;
};

}  // namespace

Stmt OrderTensorMemory(const Stmt& body, const BlockThreads& threads, const AccessContext& context,
                       AccessTable* table, ConflictTable* conflicts) {
  if (!context.tensor_memory.defined()) return body;
  return TensorOrder(threads, context, table, conflicts).Run(body);
}

}  // namespace tilelang::sync
