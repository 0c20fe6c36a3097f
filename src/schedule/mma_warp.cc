#include "schedule/mma_warp.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "ir/async.h"
#include "layout/tcgen05_layout.h"
#include "op/cta_pair.h"
#include "op/effect.h"
#include "op/gemm_tcgen05.h"
#include "op/issue.h"

namespace tilelang::schedule {

using ir::Expr;
using ir::Stmt;
using layout::kTmemLanes;
using op::I32;

namespace {

// Arrives when all that the warp has issued is complete.
Stmt Commit(const ir::Buffer& barrier, const Expr& slot, const ir::Span& span) {
  ir::Arrive::Options options{.scope = ir::Scope::kPair};
  return ir::Arrive(ir::ArriveKind::kIssuerCommit, ir::Load(barrier, {slot}), span, options);
}

// Releases the slot when all operations that the warp has issued are complete. The release goes to
// the producer of its block, or to the producers of all blocks of a cluster that share the tiles.
Stmt GiveBack(const Ring& ring, const Expr& slot, const ir::Span& span) {
  Stmt own = Commit(ring.empty, slot, span);
  int64_t mask = ring.channel->blocks;
  if (mask == 0) return own;
  ir::Arrive::Options options{.block = ir::Const(ir::dtypes::kUInt16, mask),
                              .scope = ir::Scope::kPair};
  Stmt all = ir::Arrive(ir::ArriveKind::kIssuerCommit, ir::Load(ring.empty, {slot}), span, options);
  return WhereShared(ring, all, own);
}

// Rows of block number `block`, one for each lane, of a region whose last but `from_end` - 1
// dimension has them all.
ir::Region RowsOf(const ir::Region& region, size_t from_end, int64_t block) {
  ir::Array<Expr> mins = region->mins;
  ir::Array<Expr> extents = region->extents;
  size_t dim = mins.size() - from_end;
  mins.Set(dim, mins[dim] + I32(block * kTmemLanes));
  extents.Set(dim, I32(kTmemLanes));
  return ir::Region(region->buffer, mins, extents);
}

// The rows that a turn is for: one block of them, or all.
struct Rows {
  bool all = true;
  int64_t block = 0;
  bool first = true;  // the first and the last to use the tiles of an iteration
  bool last = true;
};

// The results that the gemms of a loop write while threads work on the previous ones.
struct Result {
  const ir::StmtNode* loop;
  const Ring* ring;
  UseCounter uses;
};

struct Iteration {
  Expr number;
  std::string name;
};

// The progress of the warp through the tiles of a ring.
struct Uses {
  const Ring* ring;
  UseCounter counter;
  // The uses by gemms of a stream that runs ahead of the others.
  UseCounter ahead;
  bool are_split = false;
};

class MmaWarpWriter : public SliceCopier {
 public:
  MmaWarpWriter(const GemmTurns& turns, const std::vector<Ring>& rings,
                const std::vector<Ring>& results, const op::ThreadRange& warp,
                IterationNotes* notes)
      : SliceCopier(turns.slice()), turns_(turns), warp_(warp), notes_(notes) {
    for (const Ring& ring : results) {
      const Handover& handover = ring.channel->handovers.front();
      const ir::StmtNode* loop = handover.seq->stmts[handover.loads.front()].get();
      results_.push_back({loop, &ring, UseCounter(ring, ring.channel->Name() + "_tiles")});
    }
    for (const Ring& ring : rings) {
      if (!turns.Releases(*ring.channel)) continue;
      const std::string& name = ring.channel->Name();
      uses_.push_back({&ring, UseCounter(ring, name + "_gemms"),
                       UseCounter(ring, name + "_gemms_ahead"), AreSplit(ring)});
    }
    for (int64_t block = 0; block < turns.blocks(); ++block) {
      blocks_.push_back({turns.blocks() == 1, block, block == 0, block + 1 == turns.blocks()});
    }
    for (const GemmTurns::Barriers& of : turns.barriers()) {
      ready_.emplace_back();
      for (const Rows& rows : blocks_) {
        ready_.back().push_back(op::PhaseOf(of.ready, I32(rows.block)));
      }
    }
  }

  Stmt Write(const Stmt& body) {
    std::vector<Stmt> stmts;
    for (const Uses& uses : uses_) {
      stmts.push_back(uses.counter.Alloc());
      if (uses.are_split) stmts.push_back(uses.ahead.Alloc());
    }
    for (const Result& result : results_) stmts.push_back(result.uses.Alloc());
    for (const std::vector<op::Phase>& of_stream : ready_) {
      for (const op::Phase& ready : of_stream) stmts.push_back(op::AllocParity(ready));
    }
    stmts.push_back(MutateStmt(body));
    Stmt work = op::Sequence(stmts, body.span());
    return turns_.in_pairs() ? ir::If(op::IsPairLeader(), work, Stmt(), body.span()) : work;
  }

  using SliceCopier::Rewrite;
  Stmt Rewrite(const ir::ForNode* op) override {
    const TurnLoop* loop = turns_.Find(op);
    if (loop == nullptr) return SliceCopier::Rewrite(op);
    return loop->IsOneTurn() ? WithoutTurns(*loop) : WithTurns(*loop);
  }

 protected:
  ir::Region MutateRegion(const ir::Region& region) override {
    return slots_.InSlot(SliceCopier::MutateRegion(region));
  }
  // Gemms of a loop that is one turn stand where the program has them.
  void Append(const ir::SeqNode* seq, size_t i, std::vector<Stmt>* stmts) override {
    const TurnLoop* loop = turns_.Find(seq);
    if (loop == nullptr || !loop->IsGemm(i)) return SliceCopier::Append(seq, i, stmts);
    if (loop->Gemms().front() == i) slot_of_.clear();
    size_t begin = stmts->size();
    AppendGemm(seq, i, Rows(), /*ahead=*/false, &slot_of_, stmts);
    for (; begin < stmts->size(); ++begin) notes_->Note(stmts->at(begin), "");
  }

 private:
  // One turn for the loop.
  Stmt WithoutTurns(const TurnLoop& loop) {
    const ir::ForNode* op = loop.loop;
    std::vector<Stmt> stmts;
    auto ahead = std::find_if(results_.begin(), results_.end(),
                              [&](const Result& result) { return result.loop == op; });
    Expr slot;
    if (ahead != results_.end()) {
      slot = ahead->uses.BindSlot(op->span, &stmts);
      stmts.push_back(ahead->uses.WaitEmpty(slot, op->span));
      slots_.Enter(*ahead->ring, slot);
    } else {
      WaitUntilReady(ready_[TurnLoop::kMain].front(), op->span, &stmts);
    }
    ir::Var var(op->var->name, op->var.dtype(), op->var->span);
    Expr min = Mutate(op->min);
    Expr extent = Mutate(op->extent);
    Set(op->var, var);
    stmts.push_back(Loop(op, var, min, extent, {MutateStmt(op->body)}));
    if (ahead != results_.end()) {
      stmts.push_back(Commit(ahead->ring->full, slot, op->span));
      stmts.push_back(ahead->uses.Advance(op->span));
      return op::Sequence(stmts, op->span);
    }
    for (const Rows& rows : blocks_) stmts.push_back(Done(TurnLoop::kMain, rows, op->span));
    return op::Sequence(stmts, op->span);
  }

  Stmt WithTurns(const TurnLoop& loop) {
    const ir::ForNode* op = loop.loop;
    Expr min = Mutate(op->min);
    Expr extent = Mutate(op->extent);
    ir::Var var(op->var->name, op->var.dtype(), op->var->span);
    Iteration next = {var + ir::Const(var.dtype(), 1), IterationName(op, 1)};
    std::vector<Stmt> body;
    for (const auto& [stream, turn] : InOrder(loop)) {
      for (const Rows& rows : blocks_) {
        WaitUntilReady(ready_[stream][static_cast<size_t>(rows.block)], op->span, &body);
        AppendGemms(loop, turn->gemms, {var, ""}, rows, /*ahead=*/false, &body);
        if (turn->leads) AppendLeading(loop, stream, next, next.number < min + extent, rows, &body);
        body.push_back(Done(stream, rows, op->span));
      }
    }
    std::vector<Stmt> stmts;
    for (const Uses& uses : uses_) {
      if (IsSplit(*uses.ring, loop)) stmts.push_back(uses.ahead.Follow(uses.counter, op->span));
    }
    // Begins with the gemms that the first iteration needs first.
    for (size_t stream = loop.streams.size(); stream-- > 0;) {
      if (!loop.streams[stream].open) continue;
      // The threads of the first block arrive for all.
      WaitUntilReady(ready_[stream].front(), op->span, &stmts);
      for (const Rows& rows : blocks_) {
        Expr runs = ir::Const(extent.dtype(), 0) < extent;
        AppendLeading(loop, stream, {min, "first"}, runs, rows, &stmts);
        stmts.push_back(Done(stream, rows, op->span));
      }
    }
    stmts.push_back(Loop(op, var, min, extent, body));
    return op::Sequence(stmts, op->span);
  }

  // The turns of an iteration of all streams, as the threads let them begin.
  static std::vector<std::pair<size_t, const Turn*>> InOrder(const TurnLoop& loop) {
    std::vector<std::pair<size_t, const Turn*>> turns;
    for (size_t stream = 0; stream < loop.streams.size(); ++stream) {
      for (const Turn& turn : loop.streams[stream].turns) turns.emplace_back(stream, &turn);
    }
    std::stable_sort(turns.begin(), turns.end(), [](const auto& a, const auto& b) {
      return a.second->after < b.second->after;
    });
    return turns;
  }
  Stmt Done(size_t stream, const Rows& rows, const ir::Span& span) const {
    return Commit(turns_.barriers()[stream].done, I32(rows.block), span);
  }

  static Stmt Loop(const ir::ForNode* op, const ir::Var& var, const Expr& min, const Expr& extent,
                   const std::vector<Stmt>& body) {
    return ir::For(var, min, extent, ir::ForKind::kSerial, op::Sequence(body, op->body.span()),
                   op->annotations, op->span);
  }

  void WaitUntilReady(const op::Phase& ready, const ir::Span& span,
                      std::vector<Stmt>* stmts) const {
    ir::Scope scope = turns_.AreWrittenInPairs() ? ir::Scope::kPair : ir::Scope::kCta;
    std::vector<Stmt> wait = op::WaitForPhase(ready, span, scope);
    stmts->insert(stmts->end(), wait.begin(), wait.end());
  }

  // A loop uses the tiles of the ring in gemms ahead and in others.
  static bool IsSplit(const Ring& ring, const TurnLoop& loop) {
    const Handover* handover = FindHandover(ring, loop.body);
    return loop.streams.size() > 1 && handover != nullptr && loop.IsSplit(*handover);
  }
  bool AreSplit(const Ring& ring) const {
    const std::vector<TurnLoop>& loops = turns_.loops();
    return std::any_of(loops.begin(), loops.end(),
                       [&](const TurnLoop& loop) { return IsSplit(ring, loop); });
  }

  // The gemms of a stream that the iteration of this number, if there is one, begins with.
  void AppendLeading(const TurnLoop& loop, size_t stream, const Iteration& iteration,
                     const Expr& exists, const Rows& rows, std::vector<Stmt>* stmts) {
    const std::vector<size_t>& leading = loop.streams[stream].leading;
    if (leading.empty()) return;
    std::vector<Stmt> gemms;
    bool ahead = stream == TurnLoop::kAhead;
    AppendGemms(loop, leading, iteration, rows, ahead, &gemms);
    const ir::Span& span = loop.loop->span;
    for (const Uses& uses : uses_) {
      if (ahead && IsSplit(*uses.ring, loop)) gemms.push_back(uses.ahead.Advance(span));
    }
    stmts->push_back(ir::If(exists, op::Sequence(gemms, span), Stmt(), span));
  }

  // Some gemms of an iteration, and the variables that they use.
  void AppendGemms(const TurnLoop& loop, const std::vector<size_t>& gemms,
                   const Iteration& iteration, const Rows& rows, bool ahead,
                   std::vector<Stmt>* stmts) {
    Set(loop.loop->var, iteration.number);
    std::map<const Ring*, Expr> slot_of;
    for (size_t i = 0; i < loop.body->stmts.size(); ++i) {
      const Stmt& s = loop.body->stmts[i];
      if (!loop.IsGemm(i)) {
        Append(loop.body, i, stmts);
      } else if (std::find(gemms.begin(), gemms.end(), i) != gemms.end()) {
        size_t begin = stmts->size();
        AppendGemm(loop.body, i, rows, ahead, &slot_of, stmts);
        for (; begin < stmts->size(); ++begin) notes_->Note(stmts->at(begin), iteration.name);
      }
    }
  }

  void AppendGemm(const ir::SeqNode* body, size_t i, const Rows& rows, bool ahead,
                  std::map<const Ring*, Expr>* slot_of, std::vector<Stmt>* stmts) {
    const auto* gemm = body->stmts[i].as<ir::GemmNode>();
    Expr released;  // when the gemm is complete; others after it
    std::vector<Stmt> after;
    for (const Uses& uses : uses_) {
      const Ring* ring = uses.ring;
      const Handover* handover = FindHandover(*ring, body);
      if (handover == nullptr || !ring->channel->HasInputOf(gemm)) continue;
      const UseCounter& counter = ahead && uses.are_split ? uses.ahead : uses.counter;
      if (slot_of->count(ring) == 0) {
        slot_of->emplace(ring, counter.BindSlot(gemm->span, stmts));
        slots_.Enter(*ring, slot_of->at(ring));
      }
      const Expr& slot = slot_of->at(ring);
      if (handover->first_use == i && rows.first) {
        bool of_pair = ring->by_threads && ring->of_pair;
        ir::Scope scope = of_pair ? ir::Scope::kPair : ir::Scope::kCta;
        stmts->push_back(counter.WaitFull(slot, gemm->span, scope));
      }
      if (handover->last_use != i || !rows.last) continue;
      if (ring->channel->blocks == 0 && !released.defined()) {
        released = ir::Load(ring->empty, {slot});
      } else {
        after.push_back(GiveBack(*ring, slot, gemm->span));
      }
      after.push_back(uses.counter.Advance(gemm->span));
    }
    stmts->push_back(Issued(gemm, rows, released));
    stmts->insert(stmts->end(), after.begin(), after.end());
  }

  // The gemm, complete at `commits`, if that is given.
  Stmt Issued(const ir::GemmNode* gemm, const Rows& rows, const Expr& commits) {
    auto operands = gemm->WithRegions([&](const ir::GemmOperandNode* operand) {
      ir::Region region = MutateRegion(operand->region);
      auto dim = operand->DimAlong(ir::GemmDim::kM);
      if (!dim || rows.all) return region;
      // A slot is a dimension more, in front.
      return RowsOf(region, operand->region->extents.size() - *dim, rows.block);
    });
    auto annotations = gemm->annotations;
    annotations.Set(op::kByMmaWarp, true);
    if (!commits.defined()) annotations.Set("is_tcgen05", true);
    ir::Gemm issued(operands, Mutate(gemm->clear_accum), commits, annotations, gemm->span);
    const op::TileInstruction* instruction = op::TilePlanOf(gemm)->instruction;
    return ir::WithPlan(issued,
                        op::TilePlan(tvm::ffi::make_object<op::TilePlanNode>(instruction, warp_)));
  }

  const GemmTurns& turns_;
  op::ThreadRange warp_;
  IterationNotes* notes_;
  std::vector<Uses> uses_;
  std::vector<Result> results_;
  std::vector<Rows> blocks_;
  std::vector<std::vector<op::Phase>> ready_;  // of each stream, of each block
  SlotMap slots_;
  std::map<const Ring*, Expr> slot_of_;  // of the iteration of a loop that is one turn
};

}  // namespace

Stmt WriteMmaWarp(const GemmTurns& turns, const std::vector<Ring>& rings,
                  const std::vector<Ring>& results, const op::ThreadRange& warp, const Stmt& body,
                  IterationNotes* notes) {
  return MmaWarpWriter(turns, rings, results, warp, notes).Write(body);
}

}  // namespace tilelang::schedule
