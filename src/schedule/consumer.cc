#include "schedule/consumer.h"

#include <algorithm>

#include "ir/async.h"
#include "ir/intrinsics.h"
#include "ir/visitor.h"
#include "op/copy_tmem.h"
#include "op/cta_pair.h"
#include "op/effect.h"
#include "op/gemm_tcgen05.h"
#include "op/issue.h"
#include "schedule/overlap.h"
#include "schedule/program_order.h"
#include "target/warp.h"

namespace tilelang::schedule {

using ir::Expr;
using ir::Stmt;
using op::I32;

namespace {

class ConsumerWriter : public SlotMutator {
 public:
  ConsumerWriter(const std::vector<Ring>& rings, const GemmTurns& turns, const Expr& thread,
                 IterationNotes* notes)
      : rings_(rings),
        turns_(turns),
        notes_(notes),
        block_(turns.blocks() == 1 ? Expr(0) : ir::FloorDiv(thread, I32(kWarpgroup))) {
    for (const GemmTurns::Barriers& of : turns.barriers()) {
      done_.push_back(op::PhaseOf(of.done, block_));
    }
    for (const Ring& ring : rings) {
      if (ring.by_threads) {
        fills_.emplace_back(&ring, UseCounter(ring, ring.channel->Name() + "_fills"));
      } else if (!turns.Releases(*ring.channel)) {
        uses_.emplace_back(&ring, UseCounter(ring, ring.channel->Name() + "_uses"));
      }
    }
  }

  Stmt Write(const Stmt& body) {
    std::vector<Stmt> stmts;
    for (const auto& [ring, uses] : uses_) stmts.push_back(uses.Alloc());
    for (const auto& [ring, fills] : fills_) stmts.push_back(fills.Alloc());
    for (const op::Phase& done : done_) stmts.push_back(op::AllocParity(done));
    stmts.push_back(MutateStmt(body));
    return op::Sequence(stmts, body.span());
  }

  using SlotMutator::Rewrite;
  Stmt Rewrite(const ir::SeqNode* op) override {
    std::vector<Stmt> stmts;
    for (const Task& task : TasksOf(op)) {
      stmts.insert(stmts.end(), task.stmts.begin(), task.stmts.end());
    }
    return op::Sequence(stmts, op->span);
  }
  Stmt Rewrite(const ir::ForNode* op) override {
    const auto* body = op->body.as<ir::SeqNode>();
    bool ordered = HasProgramOrder(op);
    if (const TurnLoop* turns = turns_.Find(op)) {
      if (ordered) RemarkProgramOrder(op, "a warp of its own issues the gemms, as they are ready");
      return BesideTurns(*turns);
    }
    if ((StagesOf(op) < 2 && !ordered) || body == nullptr) return SlotMutator::Rewrite(op);
    if (ordered) RemarkPlacesOfLoads(op, body);
    return OverlapIterations(op, TasksOf(body), notes_);
  }
  Stmt Rewrite(const ir::CopyNode* op) override {
    Stmt copied = SlotMutator::Rewrite(op);
    if (turns_.blocks() == 1 || !op::IsTmemCopy(op)) return copied;
    if (!turns_.Touch(op->src->buffer) && !turns_.Touch(op->dst->buffer)) return copied;
    const auto* copy = copied.as<ir::CopyNode>();
    ir::Copy in_rows = ir::Copy::Saying(
        copy, [](ir::CopyOptionsNode* options) { options->rows_of_warpgroups = true; });
    return ir::WithPlan(in_rows, copy->plan);
  }

 private:
  void RemarkPlacesOfLoads(const ir::ForNode* loop, const ir::SeqNode* body) const {
    int64_t part = -1;
    for (const Stmt& s : body->stmts) {
      part = PartAt(s).value_or(part);
      if (IsLoad(s)) {
        RemarkLoadAhead(loop, part, s);
      } else if (!PartAt(s)) {
        RemarkNotAhead(loop, part, s);
      }
    }
  }

  // The loop without its gemms: what is left of it, if that is anything.
  Stmt BesideTurns(const TurnLoop& turns) {
    const ir::ForNode* op = turns.loop;
    std::vector<Stmt> stmts;
    bool around = !turns.RunsAhead() && std::any_of(turns.streams.begin(), turns.streams.end(),
                                                    [](const auto& s) { return IsAround(s); });
    if (around) AppendFirstReady(turns, &stmts);
    Stmt body = MutateStmt(op->body);
    if (!IsEmpty(body)) {
      stmts.push_back(ir::For(op->var, op->min, op->extent, ir::ForKind::kSerial, body,
                              op->annotations, op->span));
    }
    if (!around) return op::Sequence(stmts, op->span);
    for (size_t i = 0; i < turns.streams.size(); ++i) {
      const TurnStream& stream = turns.streams[i];
      if (!IsAround(stream)) continue;
      std::vector<Stmt> wait = WaitUntilDone(i, stream, op->span);
      stmts.insert(stmts.end(), wait.begin(), wait.end());
    }
    // After the loop threads may write operands that the gemms of other blocks read.
    bool written = turns_.blocks() > 1 && turns_.AreWritten(turns, GemmTurns::When::kAfter);
    if (written) Synchronize(op->span, &stmts);
    return op::Sequence(stmts, op->span);
  }
  // Returns whether nothing but conditions is left.
  static bool IsEmpty(const Stmt& s) {
    if (const auto* branch = s.as<ir::IfNode>()) {
      return IsEmpty(branch->then_case) &&
             (!branch->else_case.defined() || IsEmpty(branch->else_case));
    }
    const auto* seq = s.as<ir::SeqNode>();
    return seq != nullptr && std::all_of(seq->stmts.begin(), seq->stmts.end(), IsEmpty);
  }
  // A turn is under way before the loop and after it.
  static bool IsAround(const TurnStream& stream) { return stream.open || stream.turns.empty(); }

  // Appends the arrivals before the loop. Threads may have written operands for other blocks before
  // it, so all of them synchronize, and the threads of the first block arrive for all blocks.
  void AppendFirstReady(const TurnLoop& turns, std::vector<Stmt>* stmts) const {
    const ir::Span& span = turns.loop->span;
    bool one_block = turns_.blocks() == 1;
    bool written = one_block && turns_.AreWritten(turns, GemmTurns::When::kBefore);
    if (!one_block) Synchronize(span, stmts);
    if (written) stmts->push_back(ir::Fence(ir::FenceKind::kAsyncProxy, span));
    std::vector<Stmt> arrivals;
    for (size_t i = 0; i < turns.streams.size(); ++i) {
      if (IsAround(turns.streams[i])) arrivals.push_back(Ready(turns, i, I32(0), span));
    }
    if (one_block) {
      stmts->insert(stmts->end(), arrivals.begin(), arrivals.end());
    } else {
      Stmt arrive = op::Sequence(arrivals, span);
      stmts->push_back(ir::If(ir::MakeEq(block_, I32(0)), arrive, Stmt(), span));
    }
  }

  Stmt Ready(const TurnLoop& turns, size_t stream, const Expr& block, const ir::Span& span) const {
    ir::Arrive::Options options{.tensor_memory = turns.streams[stream].tensor_memory};
    if (turns_.in_pairs()) options.block = op::PairLeader();
    if (turns_.AreWrittenInPairs()) options.scope = ir::Scope::kPair;
    return Arrive(turns_.barriers()[stream].ready, block, span, options);
  }
  std::vector<Stmt> WaitUntilDone(size_t i, const TurnStream& stream, const ir::Span& span) const {
    return op::WaitForPhase(done_[i], span, ir::Scope::kCta, stream.tensor_memory);
  }
  // Completes the accesses of the threads to shared memory before some of them let others issue
  // next.
  static void Synchronize(const ir::Span& span, std::vector<Stmt>* stmts) {
    stmts->push_back(ir::Fence(ir::FenceKind::kAsyncProxy, span));
    stmts->push_back(ir::Barrier(ir::BarrierKind::kRole, span));
  }

  static Task Work(std::vector<Stmt> stmts) { return {TaskKind::kWork, std::move(stmts), {}}; }

  std::vector<Task> TasksOf(const ir::SeqNode* op) {
    std::vector<Task> tasks;
    std::map<const Ring*, Expr> slot_of;
    const TurnLoop* turns = turns_.Find(op);
    int64_t part = -1;
    for (size_t i = 0; i < op->stmts.size(); ++i) {
      const ir::Span& span = op->stmts[i].span();
      if (auto begins = PartAt(op->stmts[i])) part = *begins;
      if (PartAt(op->stmts[i]) || (turns != nullptr && turns->IsGemm(i))) continue;
      bool loads = IsLoad(op->stmts[i]);
      if (turns != nullptr) AppendWaits(*turns, i, span, &tasks);
      for (const auto& [ring, uses] : uses_) {
        const Handover* handover = FindHandover(*ring, op);
        if (handover == nullptr) continue;
        if (handover->first_use != i) continue;
        Task acquire{TaskKind::kAcquire, {}, ring->slots};
        Expr slot = uses.BindSlot(span, &acquire.stmts);
        acquire.stmts.push_back(uses.WaitFull(slot, span));
        slots_.Enter(*ring, slot);
        slot_of[ring] = slot;
        tasks.push_back(acquire);
      }
      AppendAcquires(op, i, &slot_of, &tasks);
      if (!loads && !IsAllocatedBefore(op->stmts[i])) {
        tasks.push_back(Work({MutateStmt(op->stmts[i])}));
        tasks.back().part = part;
      }
      for (const auto& [ring, uses] : uses_) {
        const Handover* handover = FindHandover(*ring, op);
        if (handover == nullptr || handover->last_use != i) continue;
        Stmt arrive = Release(*ring, slot_of.at(ring), span);
        tasks.push_back({TaskKind::kRelease, {arrive, uses.Advance(span)}, ring->slots});
      }
      AppendFilled(op, i, slot_of, &tasks);
      if (turns != nullptr) AppendArrivals(*turns, i, span, &tasks);
    }
    return tasks;
  }

  // Appends the waits for slots that statement i fills for the tensor core.
  void AppendAcquires(const ir::SeqNode* op, size_t i, std::map<const Ring*, Expr>* slot_of,
                      std::vector<Task>* tasks) {
    for (const auto& [ring, fills] : fills_) {
      const Handover* handover = FindHandover(*ring, op);
      if (handover == nullptr || handover->loads.front() != i) continue;
      std::vector<Stmt> acquire;
      Expr slot = fills.BindSlot(op->stmts[i].span(), &acquire);
      acquire.push_back(fills.WaitEmpty(slot, op->stmts[i].span()));
      slots_.Enter(*ring, slot);
      slot_of->insert_or_assign(ring, slot);
      tasks->push_back(Work(acquire));
    }
  }
  // Appends the arrivals for slots that statement i has filled: of a pair, at the leader, whose
  // warp issues the gemms.
  void AppendFilled(const ir::SeqNode* op, size_t i, const std::map<const Ring*, Expr>& slot_of,
                    std::vector<Task>* tasks) const {
    for (const auto& [ring, fills] : fills_) {
      const Handover* handover = FindHandover(*ring, op);
      if (handover == nullptr || handover->loads.back() != i) continue;
      const ir::Span& span = op->stmts[i].span();
      ir::Arrive::Options options;
      for (const ir::Buffer& slots : ring->slots) {
        if (slots.IsTmem()) options.tensor_memory.push_back(slots);
      }
      if (ring->of_pair) {
        options.block = op::PairLeader();
        options.scope = ir::Scope::kPair;
      }
      std::vector<Stmt> filled;
      if (ring->slots.front().IsShared()) {
        filled.push_back(ir::Fence(ir::FenceKind::kAsyncProxy, span));
      }
      filled.push_back(Arrive(ring->full, slot_of.at(ring), span, options));
      filled.push_back(fills.Advance(span));
      tasks->push_back(Work(filled));
    }
  }

  // Appends the waits for the turns that must be complete before statement i.
  void AppendWaits(const TurnLoop& turns, size_t i, const ir::Span& span,
                   std::vector<Task>* tasks) const {
    for (size_t s = 0; s < turns.streams.size(); ++s) {
      if (!turns.streams[s].waits[i]) continue;
      tasks->push_back(Work(WaitUntilDone(s, turns.streams[s], span)));
    }
  }
  // Appends the arrivals for the turns that begin after statement i. The accesses of the threads
  // are then complete, including writes to operands in shared memory. Accesses of tensor memory
  // have their own fences.
  void AppendArrivals(const TurnLoop& turns, size_t i, const ir::Span& span,
                      std::vector<Task>* tasks) const {
    for (size_t s = 0; s < turns.streams.size(); ++s) {
      if (turns.streams[s].TurnAfter(i) == nullptr) continue;
      std::vector<Stmt> ready;
      if (turns_.AreWrittenIn(turns)) ready.push_back(ir::Fence(ir::FenceKind::kAsyncProxy, span));
      ready.push_back(Ready(turns, s, block_, span));
      tasks->push_back(Work(ready));
    }
  }

  // Returns whether the statement uses memory that is allocated before the roles.
  bool IsAllocatedBefore(const Stmt& s) const {
    const auto* alloc = s.as<ir::AllocNode>();
    if (alloc == nullptr) return false;
    auto same = [&](const ir::Buffer& b) { return b.same_as(alloc->buffer); };
    const auto& operands = turns_.operands();
    return IsTile(alloc->buffer) || std::any_of(operands.begin(), operands.end(), same);
  }
  // Returns whether a ring delivers the buffer.
  bool IsTile(const ir::Buffer& buffer) const {
    return std::any_of(rings_.begin(), rings_.end(),
                       [&](const Ring& ring) { return ring.channel->Has(buffer); });
  }
  bool IsLoad(const Stmt& s) const {
    const auto* copy = s.as<ir::CopyNode>();
    if (copy == nullptr) return false;
    return std::any_of(rings_.begin(), rings_.end(), [&](const Ring& ring) {
      return !ring.by_threads && ring.channel->Has(copy->dst->buffer);
    });
  }

  const std::vector<Ring>& rings_;
  const GemmTurns& turns_;
  IterationNotes* notes_;
  std::vector<std::pair<const Ring*, UseCounter>> uses_;   // of the rings that threads release
  std::vector<std::pair<const Ring*, UseCounter>> fills_;  // of the rings that threads fill
  Expr block_;                                             // of rows
  std::vector<op::Phase> done_;                            // of each stream of turns
};

}  // namespace

Stmt WriteConsumers(const std::vector<Ring>& rings, const GemmTurns& turns, const Expr& thread,
                    const Stmt& body, IterationNotes* notes) {
  return ConsumerWriter(rings, turns, thread, notes).Write(body);
}

}  // namespace tilelang::schedule
