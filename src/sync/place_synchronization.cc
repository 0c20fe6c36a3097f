#include "sync/place_synchronization.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "analysis/conflicts.h"
#include "analysis/engine_waiters.h"
#include "analysis/waits.h"
#include "ir/aliases.h"
#include "ir/async.h"
#include "ir/effects.h"
#include "ir/error.h"
#include "ir/remark.h"
#include "ir/same.h"
#include "ir/visitor.h"
#include "op/effect.h"
#include "op/issue.h"
#include "op/scratch.h"
#include "op/thread_sync.h"
#include "registry/functions.h"
#include "sync/early_fences.h"
#include "sync/sync_placer.h"
#include "sync/write_waits.h"
#include "target/warp.h"

namespace tilelang::sync {

using namespace analysis;  // NOLINT(google-build-using-namespace)
using namespace ir;        // NOLINT(google-build-using-namespace)

// fence.proxy.async is for shared memory: what threads store to tensors that they read themselves
// no engine touches, and tensor memory has fences of its own.
PendingAccess Pending(const AccessPtr& access) {
  return {.access = access, .fenced = access->write && !access->buffer.IsShared()};
}

Stmt Before(std::vector<Stmt> stmts, const Stmt& s) {
  if (stmts.empty()) return s;
  stmts.push_back(s);
  return op::Sequence(stmts, s.span());
}

// Returns the statements that Before has put in front of a statement.
std::vector<Stmt> BarriersOf(const Stmt& s) {
  const auto* seq = s.as<SeqNode>();
  if (seq == nullptr) return {};
  return {seq->stmts.begin(), seq->stmts.end() - 1};
}

template <typename Node>
bool IsForStores(const Node* op) {
  return op->engine() == Engine::kTmaStore;
}

// Returns whether a warp frees tensor memory in this branch.
bool FreesTensorMemory(const Stmt& s) {
  const auto* branch = s.as<IfNode>();
  const auto* alloc = branch != nullptr ? branch->then_case.as<TmemAllocNode>() : nullptr;
  return alloc != nullptr && alloc->frees;
}

bool TouchTensorMemory(const std::vector<PendingAccess>& accesses) {
  return std::any_of(accesses.begin(), accesses.end(),
                     [](const PendingAccess& p) { return p.access->buffer.IsTmem(); });
}

bool IsWgmma(const Stmt& s) {
  const auto* issue = s.as<IssueNode>();
  return issue != nullptr && issue->engine() == Engine::kWgmma;
}

// ptxas serializes wgmma if a wait is between the fence and the wgmma, so nothing is placed there.
bool IsSequence(const Stmt& s) {
  const auto* issue = s.as<IssueNode>();
  return (issue != nullptr && !IsWgmma(s) ? issue->body : s)->kind == StmtKind::kSeq;
}

// Marks an issue whose wait stands in the program, or will be placed.
Issue Awaited(const IssueNode* op) { return Issue(op->body, op->completion, op->span, true); }

Stmt WithoutBarriers(const Stmt& s) {
  const auto* seq = s.as<SeqNode>();
  return seq == nullptr ? s : seq->stmts.back();
}

bool SyncPlacer::IsBarrier(const Stmt& s) const {
  const auto* barrier = s.as<BarrierNode>();
  if (barrier == nullptr) {
    bool leaf =
        s->kind == StmtKind::kEvaluate || s->kind == StmtKind::kBind || s->kind == StmtKind::kStore;
    return leaf && HasCall(s, Builtin::kBlockVote);
  }
  if (barrier->Part() != BarrierPart::kWhole) return false;
  auto group = executing_.Group();
  int64_t threads = group ? group->count : threads_.count();
  switch (barrier->Kind()) {
    case BarrierKind::kWarp:
      // If the threads are known only at run time, the barrier joins the threads of one warp.
      return !group || threads <= kWarp;
    case BarrierKind::kWarpgroups:
      return false;
    case BarrierKind::kNamed:
      return AsInt(barrier->count) == threads;
    case BarrierKind::kRange:
      return barrier->threads[1] == threads && (!group || barrier->threads[0] == group->begin);
    default:
      return true;
  }
}

bool SyncPlacer::JoinsExecutingThreads(const Stmt& s) const {
  const auto* barrier = s.as<BarrierNode>();
  auto group = executing_.Group();
  if (barrier == nullptr || barrier->Part() != BarrierPart::kWhole || !group) return false;
  if (barrier->Kind() == BarrierKind::kBlock) return group->count == threads_.count();
  return barrier->Kind() == BarrierKind::kRange && barrier->threads[0] == group->begin &&
         barrier->threads[1] == group->count;
}

bool SyncPlacer::IsRepeatedBarrier(const Stmt& s, const std::vector<Stmt>& before) const {
  auto of_block = [&](const Stmt& each) {
    const auto* barrier = each.as<BarrierNode>();
    return JoinsExecutingThreads(each) && barrier->Kind() == BarrierKind::kBlock && !barrier->gives;
  };
  return !before.empty() && of_block(s) && of_block(before.back());
}

Stmt SyncPlacer::Process(const Stmt& s, PendingAccesses* state) {
  if (const auto* wait = s.as<WaitNode>(); wait != nullptr && IsForStores(wait)) {
    PassStoreWait(wait, state);
    return s;
  }
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
    case StmtKind::kIssue:
      return IsWgmma(s) ? Leaf(s, state) : ProcessIssue(s.as<IssueNode>(), state);
    default:
      if (Stmt divided = DivideUpdate(s); divided.defined()) return Process(divided, state);
      return Leaf(s, state);
  }
}

Stmt SyncPlacer::DivideUpdate(const Stmt& s) const {
  const auto* store = s.as<StoreNode>();
  if (store == nullptr || !between_statements_ || !executing_.Group()) return Stmt();
  if (table_.offsets().count(store->buffer) == 0 || !HasLoad(store->value)) return Stmt();
  // All threads of the group execute the same iteration.
  AccessContext context = context_;
  context.loops.clear();
  std::vector<AccessPtr> accesses;
  CollectAccesses(s, context, table_.offsets(), &accesses);
  auto written = std::find_if(accesses.begin(), accesses.end(),
                              [](const AccessPtr& access) { return access->write; });
  bool conflict = std::any_of(accesses.begin(), accesses.end(), [&](const AccessPtr& access) {
    return access->read && IsKnownConflict(*access, **written);
  });
  if (!conflict) return Stmt();
  Var value(std::string(store->buffer->name) + "_value", store->value.dtype(), s.span());
  return Seq(
      {Bind(value, store->value, s.span()), Store(store->buffer, store->indices, value, s.span())},
      s.span());
}

std::pair<size_t, size_t> SyncPlacer::RangeOfProgram(const SeqNode* op) const {
  size_t first = op->stmts.size();
  size_t last = 0;
  for (size_t i = 0; context_.tensor_memory.defined() && i < op->stmts.size(); ++i) {
    if (!UsesProgramBarrier(op->stmts[i])) continue;
    first = std::min(first, i);
    last = i;
  }
  return {first, last};
}

Stmt SyncPlacer::ProcessSeq(const SeqNode* op, PendingAccesses* state) {
  auto [first, last] = RangeOfProgram(op);
  std::vector<Stmt> stmts;
  auto append = [&](const std::vector<Stmt>& barriers) {
    stmts.insert(stmts.end(), barriers.begin(), barriers.end());
  };
  bool outer = program_orders_;
  std::vector<Stmt> waits;  // for engines, before the next statement
  auto wait_for = [&](const std::vector<Stmt>& more) {
    std::vector<Stmt> placed = Leaves(more, state);
    waits.insert(waits.end(), placed.begin(), placed.end());
  };
  for (size_t i = 0; i < op->stmts.size(); ++i) {
    const Stmt& child = op->stmts[i];
    if (tensor_.Has(child)) continue;
    // Waits of a sequence that is part of this one stand inside of it.
    if (!IsSequence(child) && !in_flight_.IsEmpty()) {
      wait_for(in_flight_.TakeBefore(child, NeededBy(child)));
    }
    if (waits.empty() && IsRepeatedBarrier(child, stmts)) continue;
    const auto* wait = child.as<WaitNode>();
    if (wait != nullptr && !IsForStores(wait)) {
      wait_for({child});
      continue;
    }
    if (i == first && first < last) {
      append(std::exchange(waits, {}));
      append(BarriersBefore(child, OrderedByProgram(op, first, last), {}, true, state));
    }
    program_orders_ = outer || (first < last && first <= i && i <= last);
    Stmt processed = Process(child, state);
    // Barriers and the statement after them join this sequence. Engines work on while warpgroups
    // synchronize, fence, or wait for stores.
    std::vector<Stmt> barriers;
    if (child->kind != StmtKind::kSeq) {
      barriers = BarriersOf(processed);
      processed = WithoutBarriers(processed);
    }
    auto end = std::find_if(barriers.begin(), barriers.end(), [&](const Stmt& barrier) {
      return tensor_.Has(barrier) || WorkInFlight::IsEndedBy(barrier);
    });
    barriers.insert(end, waits.begin(), waits.end());
    waits.clear();
    append(barriers);
    const auto* issue = processed.as<IssueNode>();
    bool begins = issue != nullptr && !IsForStores(issue);
    stmts.push_back(begins ? Awaited(issue) : processed);
    if (begins) append(Begin(child, state));
    // The program's own barriers come after finished stores.
    if (!between_statements_ && !context_.issuer && !WaitsNext(op, i)) {
      append(WaitForStores(BulkStores::OfAll(*state, child.span()), state));
    }
  }
  wait_for(in_flight_.TakeAllocatedIn(op));
  append(waits);
  program_orders_ = outer;
  stmts = WithoutEarlyFences(
      stmts, [&](const Stmt& s) { return tensor_.Has(s); },
      [&](const Stmt& s) { return JoinsExecutingThreads(s); });
  return Seq(Array<Stmt>(stmts.begin(), stmts.end()), op->span);
}

// Places the barriers that the issued work needs before the whole statement.
Stmt SyncPlacer::ProcessIssue(const IssueNode* op, PendingAccesses* state) {
  context_.Enter(op);
  Stmt body = Process(op->body, state);
  if (context_.issuer) state->PassStoreCommit(*context_.issuer);
  context_.Leave();
  auto whole = [&](const Stmt& part) { return Issue(part, op->completion, op->span, op->awaited); };
  if (IsSequence(op->body)) return whole(body);
  return Before(BarriersOf(body), whole(WithoutBarriers(body)));
}

// Returns the wait for the work that a statement has issued, if it cannot be placed later.
std::vector<Stmt> SyncPlacer::Begin(const Stmt& issue, PendingAccesses* state) {
  const auto* op = issue.as<IssueNode>();
  if (in_flight_.Add(op, AccessesOf(issue))) return {};
  Wait wait(op->completion, 0, op->span);
  std::vector<Stmt> stmts = in_flight_.TakeBefore(wait, {});
  stmts.push_back(wait);
  return Leaves(stmts, state);
}

// Processes a sequence that is not part of another one: waits do not leave it.
Stmt SyncPlacer::ProcessBlock(const Stmt& s, PendingAccesses* state) {
  WorkInFlight outer = std::exchange(in_flight_, {});
  Stmt result = Process(s->kind == StmtKind::kIssue ? Stmt(Seq({s}, s.span())) : s, state);
  std::vector<Stmt> last = Leaves(in_flight_.TakeAll(), state);
  in_flight_ = std::move(outer);
  if (last.empty()) return result;
  last.insert(last.begin(), result);
  return op::Sequence(last, s.span());
}

// Processes statements that the executing threads execute alone: no other thread waits for their
// stores.
Stmt SyncPlacer::ProcessAlone(const Stmt& s, PendingAccesses* state) {
  BulkStores::Region outer = stores_.Enter({s});
  Stmt result = ProcessBlock(s, state);
  stores_.Enter(std::move(outer));
  if (context_.issuer || stores_.IssuesAlone(s)) return result;
  std::vector<Stmt> waits = WaitForStores(BulkStores::OfAll(*state, s.span()), state);
  if (waits.empty()) return result;
  waits.insert(waits.begin(), result);
  return op::Sequence(waits, s.span());
}

// Returns the statements with the barriers before them.
std::vector<Stmt> SyncPlacer::Leaves(const std::vector<Stmt>& stmts, PendingAccesses* state) {
  std::vector<Stmt> result;
  for (const Stmt& s : stmts) {
    Stmt processed = Leaf(s, state);
    std::vector<Stmt> barriers = BarriersOf(processed);
    result.insert(result.end(), barriers.begin(), barriers.end());
    result.push_back(WithoutBarriers(processed));
  }
  return result;
}

std::vector<AccessPtr> SyncPlacer::NeededBy(const Stmt& s) {
  std::vector<AccessPtr> accesses = AccessesOf(s);
  WalkStmts(s, [&](const Stmt& part) {
    for (const Buffer& tile : GivenBackBy(part).value_or(Array<Buffer>())) {
      accesses.push_back(WriteOf(tile, table_.offsets()));
    }
    return true;
  });
  return accesses;
}

std::vector<AccessPtr> SyncPlacer::OrderedByProgram(const SeqNode* op, size_t first, size_t last) {
  std::vector<AccessPtr> result;
  auto group = executing_.Group();
  for (size_t i = first; i <= last; ++i) {
    const Stmt& s = op->stmts[i];
    if (s->kind != StmtKind::kIf || (group && op::IsOperatorOf(s, *group))) continue;
    for (const AccessPtr& access : AccessesOf(s)) {
      if (access->buffer.IsTmem()) result.push_back(access);
    }
  }
  return result;
}

int SyncPlacer::MostCopyGroups(const Stmt& body) {
  int64_t left = 0;
  ir::WalkStmts(body, [&](const Stmt& s) {
    const auto* wait = s.as<ir::WaitGroupNode>();
    bool of_copies = wait != nullptr && wait->engine_kind() == Engine::kCpAsync;
    if (of_copies) left = std::max(left, wait->left);
    return true;
  });
  constexpr int64_t kMost = 1 << 10;
  return static_cast<int>(std::min(left, kMost)) + 1;
}

void SyncPlacer::PassCopyGroups(const Stmt& s, PendingAccesses* state) const {
  const auto* commit = s.as<ir::CommitGroupNode>();
  if (commit != nullptr && commit->engine_kind() == Engine::kCpAsync) {
    state->PassCopyCommit(most_copy_groups_);
  }
  const auto* wait = s.as<ir::WaitGroupNode>();
  if (wait != nullptr && wait->engine_kind() == Engine::kCpAsync) state->PassCopyWait(wait->left);
}

Stmt SyncPlacer::Leaf(const Stmt& s, PendingAccesses* state) {
  const std::vector<AccessPtr>& accesses = AccessesOf(s);
  if (const auto* bind = s.as<BindNode>()) context_.Bind(bind);
  PhaseUses phases = PhasesUsedIn(s);
  std::vector<Stmt> stmts = BarriersBefore(s, accesses, phases.BegunAlone(), false, state);
  const auto* arrive = s.as<ArriveNode>();
  bool of_copies = arrive != nullptr && arrive->Kind() == ArriveKind::kCopies;
  if ((of_copies || ArrivesForRoles(s)) && fences_.Lacks(*state)) {
    stmts.push_back(Fence(FenceKind::kAsyncProxy, s.span()));
    // Copies that arrive themselves are not complete here.
    if (!of_copies) state->PassFence();
  }
  AppendTensorOrder(s, state, &stmts);
  for (const AccessPtr& access : accesses) state->Add(Pending(access));
  state->phases().Pass(s, phases, threads_.count(), executing_.Group());
  if (s->kind == StmtKind::kBreak || s->kind == StmtKind::kContinue) exits_.back().Merge(*state);
  if (IsBarrier(s)) state->PassBarrier(s.get());
  const auto* barrier = s.as<BarrierNode>();
  bool of_warpgroups = barrier != nullptr && barrier->Kind() == BarrierKind::kWarpgroups;
  if (of_warpgroups) state->PassWarpgroupBarrier(s.get());
  const auto* fence = s.as<FenceNode>();
  if (fence != nullptr && fence->Kind() == FenceKind::kAsyncProxy) state->PassFence();
  if (of_copies) state->PassCopyArrival();
  PassCopyGroups(s, state);
  if (WaitsOnMbarrier(s)) state->PassWait(MbarrierWaitedOn(s));
  if (IsWgmma(s)) state->PassWgmmaCommit();
  const auto* wait = s.as<WaitNode>();
  if (wait != nullptr && wait->engine() == Engine::kWgmma) {
    state->PassWgmmaWait(static_cast<int>(wait->left), threads_);
  }
  return Before(stmts, s);
}

// Returns the addresses of all buffers. Tensors lie beyond shared memory, each in a range of its
// own; tensors that may overlap share a range.
Map<Buffer, int64_t> SyncPlacer::PlacesOf(const KernelLaunchNode* launch) {
  auto offsets = launch->attrs.find("smem_offsets");
  TL_CHECK(offsets != launch->attrs.end(), launch->span, "PlanSharedMemory must run first");
  auto places = (*offsets).second.cast<Map<Buffer, int64_t>>();
  constexpr int64_t kApart = int64_t{1} << 40;
  int64_t place = 0;
  std::unordered_map<const ffi::Object*, int64_t> of_memory;
  for (const Buffer& tensor : SharedTensors(launch)) {
    auto [it, is_new] = of_memory.try_emplace(MemoryOf(tensor), place + kApart);
    if (is_new) place = it->second;
    places.Set(tensor, it->second);
  }
  return places;
}

bool SyncPlacer::Waits(const PendingAccess& earlier, const AccessPtr& later, bool role) {
  const Buffer& buffer = later->buffer;
  if (earlier.by_role && (role || (program_orders_ && buffer.IsTmem()))) return false;
  // One thread issues a store by TMA for all: where the program has no barrier, it relied on each
  // thread to store what it has written.
  bool joined = later->issuer && executing_.Group();
  bool programs = earlier.access->buffer.same_as(buffer) && !op::IsScratch(buffer) && !joined;
  if (programs && !buffer.IsTmem() && !between_statements_) return false;
  return NeedsBarrier(earlier, later, threads_, &conflicts_);
}

bool SyncPlacer::UpdatesInPlace(const PendingAccess& earlier, const AccessPtr& later) const {
  bool in_turn = earlier.carried_by == PendingAccess::kNotCarried && !executing_.Group();
  if (!in_turn || !TouchSameElements(*earlier.access, *later)) return false;
  std::vector<Buffer> read;
  bool from_tensors =
      !HasCall(Evaluate(later->index, later->index.span()), [](const CallNode*) { return true; });
  WalkExprs(later->index, [&](const Expr& e) {
    if (const auto* load = e.as<LoadNode>()) read.push_back(load->buffer);
    return true;
  });
  WalkEffects(launch_->body, [&](const Effect& effect) {
    from_tensors = from_tensors && !(effect.Writes() && HasSame(read, effect.buffer));
  });
  return from_tensors && !read.empty() &&
         std::all_of(read.begin(), read.end(), [](const Buffer& b) { return b.IsGlobal(); });
}

namespace {

void RemarkUpdate(const Span& span, const Buffer& buffer) {
  Remark(span, "threads",
         "threads of this branch update elements of \"" + std::string(buffer->name) +
             "\" at indices that are read from a tensor, without a barrier in between: no two "
             "threads may update the same element");
}

}  // namespace

op::ThreadRange SyncPlacer::GroupAt(const Span& span, const Buffer& conflict) const {
  auto group = executing_.Group();
  if (group) return *group;
  std::string what = conflict.IsGlobal() ? "the same elements of " + std::string(conflict->name)
                     : conflict.IsTmem() ? "the same cells of tensor memory"
                                         : "the same elements of shared memory";
  TL_USER_ERROR(kSemantics, span,
                "threads that take this branch must wait for each other here, because they touch "
                    << what
                    << ", but the branch is not taken by whole warps of consecutive threads. Move "
                       "the statement out of the branch, or let warps take it as a whole; or, if "
                       "no thread touches what another writes there, order the kernel by "
                       "T.sync_threads() and pass_configs={\"tl.disable_thread_storage_sync\": "
                       "True}");
}

// Null when none of the accesses conflicts with what is pending.
Stmt SyncPlacer::BarrierBetween(const Span& span, const std::vector<AccessPtr>& accesses, bool role,
                                PendingAccesses* state) {
  Buffer conflict;
  bool fence = false;
  bool among_warpgroups = false;
  for (const AccessPtr& access : accesses) {
    for (const PendingAccess& p : state->All()) {
      if (!Waits(p, access, role)) continue;
      if (UpdatesInPlace(p, access)) {
        RemarkUpdate(span, access->buffer);
        continue;
      }
      conflict = access->buffer;
      if (conflict.IsGlobal()) AddOnce(conflict, &ordered_tensors_);
      fence |= p.IsStoreByThreads() && !p.fenced && access->proxy == Proxy::kAsync;
      among_warpgroups = among_warpgroups || ConcernsWarpgroups(p, access);
    }
  }
  if (!conflict.defined()) return Stmt();
  op::ThreadRange group = GroupAt(span, conflict);
  bool alone = !among_warpgroups && op::IsWarpgroups(group);
  Stmt barrier =
      alone ? op::SyncWarpgroups(group, span) : op::SyncThreads(group, threads_.count(), span);
  if (fence) {
    fences_.Require(barrier.get());
    state->PassFence();
  }
  if (alone) {
    state->PassWarpgroupBarrier(barrier.get());
  } else {
    state->PassBarrier(barrier.get());
    state->phases().PassBarrier(group);
  }
  return barrier;
}

bool SyncPlacer::ConcernsWarpgroups(const PendingAccess& earlier, const AccessPtr& later) {
  bool stored = earlier.access->issuer || later->issuer;
  bool carried = earlier.carried_by != PendingAccess::kNotCarried;
  return !stored || conflicts_.WarpgroupsMayConflict(earlier.access, later, carried);
}

std::vector<Stmt> SyncPlacer::WaitForStores(const std::vector<Wait>& waits,
                                            PendingAccesses* state) {
  for (const Wait& wait : waits) PassStoreWait(wait.get(), state);
  inserted_ += static_cast<int>(waits.size());
  return {waits.begin(), waits.end()};
}

void SyncPlacer::PassStoreWait(const WaitNode* wait, PendingAccesses* state) {
  const Array<int64_t>& issuer = wait->completion->threads;
  auto left = static_cast<int>(wait->left);
  state->PassStoreWait({issuer[0], issuer[1]}, left, WaiterOf(wait, threads_));
}

void SyncPlacer::AppendTensorOrder(const Stmt& s, PendingAccesses* state,
                                   std::vector<Stmt>* stmts) {
  std::vector<Stmt> needed = tensor_.Before(s, AccessesOf(s), executing_.threads, &state->tensor());
  stmts->insert(stmts->end(), needed.begin(), needed.end());
}

// The statement after number i of a sequence waits for stores.
bool SyncPlacer::WaitsNext(const SeqNode* op, size_t i) {
  const auto* next = i + 1 < op->stmts.size() ? op->stmts[i + 1].as<WaitNode>() : nullptr;
  return next != nullptr && IsForStores(next);
}

std::vector<Stmt> SyncPlacer::BarriersBefore(const Stmt& s, const std::vector<AccessPtr>& accesses,
                                             const BarrierList& begun, bool role,
                                             PendingAccesses* state) {
  const Span& span = s.span();
  std::vector<Stmt> waits = WaitForStores(stores_.Before(s, accesses, *state), state);
  std::vector<Stmt> barriers;
  Stmt between = BarrierBetween(span, accesses, role, state);
  if (!between.defined() && FreesTensorMemory(s) && TouchTensorMemory(state->All())) {
    const op::ThreadRange everybody{0, threads_.count()};
    between = op::SyncThreads(everybody, threads_.count(), span);
    state->PassBarrier(between.get());
    state->phases().PassBarrier(everybody);
  }
  auto add = [&](const Stmt& barrier) {
    AppendTensorOrder(barrier, state, &barriers);
    barriers.push_back(barrier);
    ++inserted_;
  };
  if (between.defined()) add(between);
  for (const Buffer& phase : begun) {
    if (!state->phases().Has(phase)) continue;
    op::ThreadRange waiting = state->phases().WaitingOn(phase);
    Stmt barrier = op::SyncThreads(waiting, threads_.count(), span);
    if (executing_.Group() == waiting) state->PassBarrier(barrier.get());
    state->phases().PassBarrier(waiting);
    add(barrier);
  }
  barriers.insert(barriers.begin(), waits.begin(), waits.end());
  for (const AccessPtr& access : accesses) {
    state->TakeFences(access, &conflicts_, [&](const ffi::Object* b) { fences_.Require(b); });
  }
  return barriers;
}

namespace {

class Launches : public StmtMutator {
 public:
  explicit Launches(bool between_statements) : between_statements_(between_statements) {}
  using StmtMutator::Rewrite;
  Stmt Rewrite(const KernelLaunchNode* op) override {
    SyncPlacer inserter(op, between_statements_);
    Stmt body = WriteWaits(inserter.Run(), op);
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
  registry::Functions().Add("tl.transform.PlaceSynchronization",
                            [](Func func) { return PlaceSynchronization(func); });
}

}  // namespace tilelang::sync
