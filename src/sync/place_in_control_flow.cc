// Processes branches and loops: which threads take them together, and which accesses they leave
// pending.
#include <tvm/ffi/cast.h>

#include <algorithm>
#include <utility>

#include "analysis/engine_waiters.h"
#include "analysis/waits.h"
#include "ir/error.h"
#include "ir/visitor.h"
#include "op/effect.h"
#include "op/issue.h"
#include "sync/sync_placer.h"

namespace tilelang::sync {

using namespace analysis;  // NOLINT(google-build-using-namespace)
using namespace ir;        // NOLINT(google-build-using-namespace)

namespace {

op::ThreadRange IssuerOf(const Completion& stores) {
  return {stores->threads[0], stores->threads[1]};
}

void Append(const std::vector<Stmt>& more, std::vector<Stmt>* stmts) {
  stmts->insert(stmts->end(), more.begin(), more.end());
}

std::vector<AccessPtr> WithoutTensorMemory(std::vector<AccessPtr> accesses) {
  std::erase_if(accesses, [](const AccessPtr& access) { return access->buffer.IsTmem(); });
  return accesses;
}

}  // namespace

// Records the accesses of a statement that only some threads execute.
void SyncPlacer::RecordWhole(const Stmt& s, bool role, bool ordered, PendingAccesses* state) {
  EngineWaiters waiters(s, executing_.threads, threads_);
  bool on_mbarrier = WaitsOnMbarrier(s);
  bool for_stores = WaitsForAll(s, Engine::kTmaStore);
  state->PassWait(waiters.OfAny(), on_mbarrier, for_stores);
  for (const AccessPtr& access : AccessesOf(s)) {
    if (access->by_warpgroup) {
      state->Add({.access = access,
                  .by_role = role,
                  .complete = WaitsForAll(s, Engine::kWgmma),
                  .known = KnownToWarpgroup(*access, threads_)});
      continue;
    }
    PendingAccess pending = Pending(access);
    pending.by_role = role || (ordered && access->buffer.IsTmem());
    pending.complete = access->issuer ? for_stores : on_mbarrier;
    if (access->proxy == Proxy::kAsync) pending.known = waiters.Of(access->buffer);
    state->Add(pending);
  }
  if (!stores_.IssuesAlone(s)) return;
  WalkStmts(s, [&](const Stmt& part) {
    const auto* issue = part.as<IssueNode>();
    if (issue != nullptr) state->PassStoreCommit(IssuerOf(issue->completion));
    return issue == nullptr;
  });
}

Stmt SyncPlacer::ProcessIf(const IfNode* op, PendingAccesses* state) {
  bool uniform = executing_.arrives ? uniformity_.IsUniform(op->condition, executing_.threads)
                                    : uniformity_.IsUniform(op->condition);
  if (!uniform) return ProcessBranch(op, state);
  Stmt checked = Leaf(table_.Head(op->condition), state);
  PendingAccesses other = *state;
  ThreadSelection chosen = threads_.Select(op->condition, executing_.threads);
  tensor_.Enter(Acquires(op->condition));
  context_.guards.push_back(op->condition);
  Stmt then_case = ProcessBlock(op->then_case, state);
  context_.guards.back() = Not(op->condition);
  Stmt else_case = op->else_case.defined() ? ProcessBlock(op->else_case, &other) : Stmt();
  context_.guards.pop_back();
  state->tensor().MergeSides(chosen.threads, other.tensor(), ThreadsOfElse(chosen));
  other.tensor() = {};
  state->Merge(other);
  Stmt result = If(op->condition, then_case, else_case, op->span);
  std::vector<Stmt> before = BarriersOf(checked);
  Append(tensor_.Leave(op->span, executing_.threads, &state->tensor()), &before);
  return Before(before, result);
}

ThreadSet SyncPlacer::ThreadsOfElse(const ThreadSelection& chosen) const {
  return chosen.rest.empty() ? executing_.threads - chosen.threads : executing_.threads;
}

bool SyncPlacer::Acquires(const Expr& condition) const {
  return op::IsElection(condition) ||
         threads_.Select(condition, executing_.threads).threads == executing_.threads;
}

// Processes a branch that only some threads take. Outside it counts as one statement.
Stmt SyncPlacer::ProcessBranch(const IfNode* op, PendingAccesses* state) {
  Stmt whole = ffi::GetRef<Stmt>(op);
  bool role = IsRole(whole);
  auto group = executing_.Group();
  bool own = group && op::IsOperatorOf(whole, *group);
  std::vector<AccessPtr> accesses = AccessesOf(whole);
  BarrierList begun = PhasesUsedIn(whole).BegunAlone();
  // A thread that sees the tensor core complete may go on while other threads still wait.
  bool on_tensor_core =
      own && std::any_of(accesses.begin(), accesses.end(), [](const auto& access) {
        return access->buffer.IsTmem() && access->proxy == Proxy::kAsync;
      });
  if (on_tensor_core) {
    for (const Buffer& barrier : state->phases().OfProgram(*group)) begun.push_back(barrier);
  }
  bool ordered = program_orders_ && !own;
  std::vector<Stmt> before =
      BarriersBefore(whole, ordered ? WithoutTensorMemory(accesses) : accesses, begun, role, state);
  ThreadSelection chosen = threads_.Select(op->condition, executing_.threads);
  bool together = executing_.arrives;
  for (const Expr& part : chosen.rest) {
    together = together && uniformity_.IsUniform(part, chosen.threads);
  }
  bool known = chosen.rest.empty();
  AppendTensorOrder(table_.Head(op->condition), state, &before);
  tensor_.Enter(Acquires(op->condition));
  PendingAccesses after_then;
  after_then.phases() = state->phases();
  after_then.tensor() = state->tensor();
  PendingAccesses after_else = after_then;
  Stmt then_case =
      ProcessBranchBody(op->then_case, op->condition, {chosen.threads, together}, &after_then);
  Stmt else_case;
  ThreadSet others = ThreadsOfElse(chosen);
  if (op->else_case.defined()) {
    else_case = ProcessBranchBody(op->else_case, Not(op->condition),
                                  {others, executing_.arrives && known}, &after_else);
  }
  state->tensor() = after_then.tensor();
  state->tensor().MergeSides(chosen.threads, after_else.tensor(), others);
  Append(tensor_.Leave(op->span, executing_.threads, &state->tensor()), &before);
  state->phases() = after_then.phases();
  if (known) {
    state->phases() =
        OpenPhases::AfterSides(then_case, after_then.phases(), else_case, after_else.phases());
  } else {
    state->phases().Merge(after_else.phases());
  }
  Stmt result = If(op->condition, then_case, else_case, op->span);
  table_.Set(result, context_, accesses);
  divergent_.insert(result.get());
  RecordWhole(result, role, ordered, state);
  return Before(before, result);
}

Stmt SyncPlacer::ProcessBranchBody(const Stmt& body, const Expr& condition,
                                   const ExecutingThreads& by, PendingAccesses* inside) {
  ExecutingThreads outer = std::exchange(executing_, by);
  // The threads of the branch synchronize among themselves.
  bool program_orders = std::exchange(program_orders_, false);
  context_.guards.push_back(condition);
  Stmt result = ProcessAlone(body, inside);
  context_.guards.pop_back();
  program_orders_ = program_orders;
  executing_ = outer;
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
  ++depth_;
  stores_.EnterLoop(loop);
  const Stmt& original = op != nullptr ? op->body : while_op->body;
  // Threads that leave the loop at different times do not wait for each other's stores.
  Stmt body = executing_.arrives ? ProcessBlock(original, state) : ProcessAlone(original, state);
  // The condition of the next iteration is read after the body.
  const Stmt& head = table_.Head(op != nullptr ? op->extent : while_op->condition);
  std::vector<Stmt> last = BarriersOf(Leaf(head, state));
  if (!last.empty()) body = Seq({body, op::Sequence(last, body.span())}, body.span());
  exits_.back().tensor().Leave(tensor_.depth());
  state->Merge(exits_.back());
  exits_.pop_back();
  --depth_;
  stores_.LeaveLoop();
  if (constant) context_.loops.pop_back();
  return WithBody(loop, body);
}

// Processes the body until no more barriers come for what earlier iterations leave: `carried`.
Stmt SyncPlacer::ProcessBody(const Stmt& loop, PendingAccesses* carried) {
  const int max_rounds = 16 + most_copy_groups_;  // one may commit one group
  Stmt result = loop;
  const TensorOrder::Scopes scopes = tensor_.scopes();
  for (int round = 0; round < max_rounds; ++round) {
    tensor_.Restore(scopes);
    int before = inserted_;
    PendingAccesses state = *carried;
    result = ProcessIteration(result, &state);
    state.Carry(depth_);
    bool settled = inserted_ == before && carried->Covers(state);
    state.tensor().Merge(carried->tensor());
    *carried = state;
    if (settled) return result;
  }
  TL_CHECK(false, loop.span(), "the barriers of a loop do not settle");
}

Stmt SyncPlacer::ProcessLoop(const Stmt& loop, PendingAccesses* state) {
  if (!uniformity_.IsUniformLoop(loop.get())) return ProcessDivergentLoop(loop, state);
  PendingAccesses carried;
  tensor_.Enter(true);
  Stmt result = ProcessBody(loop, &carried);
  tensor_.Abandon();
  std::vector<AccessPtr> exposed;
  Exposed(result, &exposed);
  // If iterations leave a phase open, the loop already contains a barrier.
  BarrierList begun = PhasesUsedIn(result).begun;
  std::erase_if(begun, [&](const Buffer& barrier) { return carried.phases().Has(barrier); });
  std::vector<Stmt> stmts = BarriersBefore(loop, exposed, begun, false, state);
  // The first iteration finds what the statements before the loop left.
  PendingAccesses before = *state;
  state->Merge(carried);
  tensor_.Enter(true);
  result = ProcessIteration(result, state);
  state->LeaveLoop(depth_);
  const auto* op = loop.as<ForNode>();
  bool runs = op != nullptr && AsInt(op->extent).value_or(0) > 0;
  if (!runs) state->Merge(before);
  Append(tensor_.Leave(loop.span(), executing_.threads, &state->tensor()), &stmts);
  return Before(stmts, result);
}

// Processes a loop whose threads may run a different number of iterations. Outside it counts as one
// statement.
Stmt SyncPlacer::ProcessDivergentLoop(const Stmt& loop, PendingAccesses* state) {
  std::vector<AccessPtr> whole = AccessesOf(loop);
  std::vector<Stmt> before = BarriersBefore(loop, whole, {}, false, state);
  ExecutingThreads outer = executing_;
  executing_.arrives = false;
  PendingAccesses carried;
  carried.phases() = state->phases();
  carried.tensor() = state->tensor();
  tensor_.Enter(true);
  Stmt result = ProcessBody(loop, &carried);
  Append(tensor_.Leave(loop.span(), executing_.threads, &carried.tensor()), &before);
  state->tensor() = carried.tensor();
  state->phases().Merge(carried.phases());
  executing_ = outer;
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
  if (const auto* issue = s.as<IssueNode>()) return Exposed(issue->body, out);
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

}  // namespace tilelang::sync
