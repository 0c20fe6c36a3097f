#include "schedule/gemm_turns.h"

#include <algorithm>

#include "ir/effects.h"
#include "ir/remark.h"
#include "ir/same.h"
#include "ir/visitor.h"
#include "op/copy_tmem.h"
#include "op/cta_pair.h"
#include "op/gemm_tcgen05.h"
#include "op/issue.h"
#include "op/row_vote.h"
#include "op/tmem.h"
#include "target/warp.h"

namespace tilelang::schedule {

using ir::Buffer;
using ir::Stmt;

namespace {

// Adds the GEMMs to `slice`. Returns why a warp of its own cannot issue them, or an empty string if
// it can.
std::string AddToSlice(const TurnLoop& loop, const ir::KernelLaunchNode* launch, RoleSlice* slice) {
  RoleSlice alone(launch);
  for (size_t i : loop.Gemms()) {
    std::string reason = alone.Add(loop.body->stmts[i].as<ir::GemmNode>());
    if (!reason.empty()) return reason;
  }
  for (size_t i = 0; !loop.is_guarded && i < loop.body->stmts.size(); ++i) {
    const Stmt& s = loop.body->stmts[i];
    if (alone.Has(s.get()) && !loop.IsGemm(i) && s->kind != ir::StmtKind::kBind) {
      return "it depends on variables that the loop assigns";
    }
    if (ir::MayLeaveLoop(s)) return "the loop may be left early";
  }
  for (size_t i : loop.Gemms()) slice->Add(loop.body->stmts[i].as<ir::GemmNode>());
  return "";
}

// The rows of a tile are blocks of 128, one for each warpgroup.
bool HasRows(const ir::Region& region, size_t dim_from_end, int64_t rows) {
  auto extents = ir::AsInts(region->extents);
  return extents && extents->size() == 2 && (*extents)[2 - dim_from_end] == rows;
}

// A copy between registers and all rows of a tile in tensor memory.
bool IsCopyOfRows(const ir::CopyNode* copy, int64_t rows) {
  if (!op::IsTmemCopy(copy)) return false;
  const ir::Region& tile = copy->src->buffer.IsTmem() ? copy->src : copy->dst;
  return HasRows(tile, 2, rows) && ir::IsConst(tile->mins[0], 0);
}

// Returns whether threads only copy their own rows, either all of them or under a condition on any
// of them.
bool CopiesRows(const Stmt& s, int64_t rows) {
  const auto* branch = s.as<ir::IfNode>();
  if (branch == nullptr || !op::FlagsOf(branch->condition).defined()) {
    const auto* copy = s.as<ir::CopyNode>();
    return copy != nullptr && IsCopyOfRows(copy, rows);
  }
  bool all = true;
  ir::WalkEffects(branch->then_case, [&](const ir::Effect& effect) {
    const auto* copy = effect.By<ir::CopyNode>();
    all = all && (!effect.buffer.IsTmem() || (copy != nullptr && IsCopyOfRows(copy, rows)));
  });
  return all;
}

// Blocks of rows stay apart in the loop: in its gemms, and in what threads do beside them.
bool IsDividedByRows(const TurnLoop& loop, int64_t rows) {
  for (size_t i = 0; i < loop.body->stmts.size(); ++i) {
    const Stmt& s = loop.body->stmts[i];
    if (loop.IsGemm(i)) {
      const auto* gemm = s.as<ir::GemmNode>();
      for (const ir::GemmOperand& operand : gemm->operands) {
        auto dim = operand->DimAlong(ir::GemmDim::kM);
        if (!dim) continue;
        const ir::Region& region = operand->region;
        bool whole = region.IsWhole() || !region->buffer.IsTmem();
        if (!whole || !HasRows(region, region->extents.size() - *dim, rows)) return false;
      }
    } else if (loop.IsPart(i) && !CopiesRows(s, rows)) {
      return false;
    }
  }
  return true;
}

// The sequence that the loop is a statement of, in another loop; null for none.
const ir::SeqNode* SequenceAround(const TurnLoop& loop, const ir::KernelLaunchNode* launch) {
  const ir::SeqNode* found = nullptr;
  ir::WalkStmts(launch->body, [&](const Stmt& outer) {
    bool repeats = outer->kind == ir::StmtKind::kFor || outer->kind == ir::StmtKind::kWhile;
    if (!repeats || outer.get() == loop.loop) return true;
    ir::WalkStmts(outer, [&](const Stmt& s) {
      const auto* seq = s.as<ir::SeqNode>();
      if (seq == nullptr) return true;
      for (const Stmt& inner : seq->stmts) {
        if (inner.get() == loop.loop) found = seq;
      }
      return true;
    });
    return false;
  });
  return found;
}

// The gemms overwrite the tile first, and but for them threads only read it, if they do, in
// statements after the loop. Widens the range of the statements that do.
bool IsResult(const Buffer& tile, const TurnLoop& loop, const ir::KernelLaunchNode* launch,
              Handover* handover) {
  for (size_t i : loop.main().gemms) {
    const auto* gemm = loop.body->stmts[i].as<ir::GemmNode>();
    if (gemm->HasInput(tile)) return false;
    if (!gemm->result()->buffer.same_as(tile)) continue;
    if (!gemm->result().IsWhole() || !ir::ClearsFirst(gemm, loop.loop)) return false;
    break;
  }
  int uses = ir::CountEffects(loop.loop->body, tile);
  const auto& stmts = handover->seq->stmts;
  for (size_t i = handover->loads.front() + 1; i < stmts.size(); ++i) {
    for (const ir::Effect& effect : ir::EffectsOf(stmts[i])) {
      if (!effect.buffer.same_as(tile)) continue;
      if (effect.Writes()) return false;
      ++uses;
      bool is_first = handover->first_use == 0 || i < handover->first_use;
      if (is_first) handover->first_use = i;
      handover->last_use = std::max(handover->last_use, i);
    }
    if (ir::MayLeaveLoop(stmts[i])) return false;
  }
  return uses == ir::CountEffects(launch->body, tile);
}

// Returns the channel for results of a loop that is one turn inside of another loop; the tensor
// core can then go on with the next turn. `columns`: the columns of a second slot.
Channel ResultsOf(const TurnLoop& loop, const ir::KernelLaunchNode* launch, int64_t* columns) {
  constexpr int64_t kSlots = 2;
  const ir::SeqNode* seq = SequenceAround(loop, launch);
  bool runs = ir::AsInt(loop.loop->extent).value_or(0) > 0;
  if (!loop.IsOneTurn() || loop.is_guarded || seq == nullptr || !runs) return {};
  auto is_loop = [&](const Stmt& s) { return s.get() == loop.loop; };
  auto at = std::find_if(seq->stmts.begin(), seq->stmts.end(), is_loop) - seq->stmts.begin();
  Handover handover{seq, {static_cast<size_t>(at)}, 0, 0};
  Channel results{{}, kSlots, {}};
  for (const Buffer& tile : loop.main().tensor_memory) {
    if (!IsResult(tile, loop, launch, &handover)) return {};
    results.tiles.push_back(tile);
    *columns += op::MostColumnsOf(tile);
  }
  if (handover.first_use == 0) return {};
  results.handovers.push_back(handover);
  return results;
}

}  // namespace

GemmTurns::GemmTurns(const ir::KernelLaunchNode* launch, const std::vector<Channel>& channels,
                     int64_t threads, int64_t columns)
    : slice_(launch), in_pairs_(op::HasGemmsInPairs(launch->body)), launch_(launch) {
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* op = s.as<ir::ForNode>();
    if (op != nullptr && StagesOf(op) >= 2 && HasTurnGemm(op->body)) AddLoop(op, channels);
    return true;
  });
  std::erase_if(loops_, [&](const TurnLoop& loop) {
    RoleSlice unused(launch);
    std::string reason = AddToSlice(loop, launch, &unused);
    if (!reason.empty()) RemarkByThreads(loop.loop, reason);
    return !reason.empty();
  });
  std::erase_if(loops_, [&](const TurnLoop& loop) { return HasInnerLoop(loop); });
  RemoveLoopsWithMixedChannels(channels);
  for (const TurnLoop& loop : loops_) AddToSlice(loop, launch, &slice_);
  blocks_ = ChooseBlocks(channels, threads);
  FindOperands(channels);
  FindResults(columns);
  size_t streams = 0;
  for (const TurnLoop& loop : loops_) streams = std::max(streams, loop.streams.size());
  for (size_t i = 0; i < streams; ++i) {
    std::string name = i == TurnLoop::kMain ? "gemm" : "gemm_ahead";
    barriers_.push_back(
        {op::MakeRingBarrier(name + "_ready", blocks_,
                             threads / blocks_ * (in_pairs_ ? op::kPairBlocks : 1), launch->span),
         op::MakeRingBarrier(name + "_done", blocks_, 1, launch->span)});
  }
}

void GemmTurns::AddLoop(const ir::ForNode* loop, const std::vector<Channel>& channels) {
  std::string reason;
  auto found = FindTurnLoop(loop, channels, &reason);
  if (!found) return RemarkByThreads(loop, reason);
  loops_.push_back(std::move(*found));
}

// Adds the remark to the gemms of the loop, except for gemms of inner loops, which are decided
// separately.
void GemmTurns::RemarkByThreads(const ir::ForNode* loop, const std::string& reason) {
  ir::WalkStmts(loop->body, [&](const Stmt& s) {
    const auto* inner = s.as<ir::ForNode>();
    if (inner != nullptr && StagesOf(inner) >= 2) return false;
    if (const auto* gemm = AsTurnGemm(s)) {
      RemarkGemm(gemm, "is issued by the threads that wait for it: " + reason);
    }
    return true;
  });
}

bool GemmTurns::HasInnerLoop(const TurnLoop& loop) const {
  const auto& stmts = loop.body->stmts;
  return std::any_of(stmts.begin(), stmts.end(), [&](const Stmt& s) {
    return ir::HasStmt(s, [&](const Stmt& inner) { return Find(inner.get()) != nullptr; });
  });
}

// A channel that something else than gemms of turns uses too takes its loops away, and these their
// channels.
void GemmTurns::RemoveLoopsWithMixedChannels(const std::vector<Channel>& channels) {
  enum Users { kNobody = 0, kTurns = 1, kOthers = 2 };
  auto users_of = [&](const Channel& channel) {
    int users = kNobody;
    for (const Handover& h : channel.handovers) {
      const TurnLoop* loop = Find(h.seq);
      for (size_t i = h.first_use; i <= h.last_use; ++i) {
        bool uses = false;
        ir::WalkEffects(h.seq->stmts[i],
                        [&](const ir::Effect& effect) { uses |= channel.Has(effect.buffer); });
        if (uses) users |= loop != nullptr && loop->IsGemm(i) ? kTurns : kOthers;
      }
    }
    return users;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (const Channel& channel : channels) {
      if (users_of(channel) != (kTurns | kOthers)) continue;
      for (const Handover& h : channel.handovers) {
        changed |= std::erase_if(loops_, [&](const TurnLoop& l) { return l.body == h.seq; }) != 0;
      }
    }
  }
  for (const Channel& channel : channels) {
    if (users_of(channel) == kTurns) released_.push_back(channel.tiles[0].get());
  }
}

bool GemmTurns::Touch(const Buffer& tile) const {
  return std::any_of(loops_.begin(), loops_.end(), [&](const TurnLoop& loop) {
    return std::any_of(loop.streams.begin(), loop.streams.end(), [&](const TurnStream& stream) {
      return ir::HasSame(stream.tensor_memory, tile);
    });
  });
}

int64_t GemmTurns::ChooseBlocks(const std::vector<Channel>& channels, int64_t threads) const {
  bool divided = threads % kWarpgroup == 0 &&
                 std::any_of(loops_.begin(), loops_.end(),
                             [](const TurnLoop& loop) { return !loop.IsOneTurn(); });
  for (const TurnLoop& loop : loops_) {
    divided = divided && (loop.IsOneTurn() || IsDividedByRows(loop, threads));
  }
  for (const Channel& channel : channels) {
    for (const Handover& h : channel.handovers) {
      const TurnLoop* loop = Find(h.seq);
      divided = divided && (loop == nullptr || !loop->IsSplit(h));
    }
  }
  // Threads keep to their rows everywhere.
  ir::WalkEffects(launch_->body, [&](const ir::Effect& effect) {
    if (!divided || !Touch(effect.buffer) || effect.By<ir::GemmNode>() != nullptr) return;
    const auto* copy = effect.By<ir::CopyNode>();
    divided = copy != nullptr && IsCopyOfRows(copy, threads);
  });
  return divided ? threads / kWarpgroup : 1;
}

void GemmTurns::FindOperands(const std::vector<Channel>& channels) {
  for (const TurnLoop& loop : loops_) {
    for (size_t i : loop.Gemms()) {
      const auto* gemm = loop.body->stmts[i].as<ir::GemmNode>();
      for (const ir::GemmOperandNode* input : gemm->Inputs()) {
        const Buffer& b = input->buffer();
        if (!b.IsShared() || ChannelOf(b, channels) != nullptr) continue;
        ir::AddOnce(b, &operands_);
      }
    }
  }
}

void GemmTurns::FindResults(int64_t columns) {
  // Slots of results are another role's to wait for: the turns of blocks of rows are not.
  if (blocks_ > 1 || !operands_.empty()) return;
  columns -= op::ColumnsOfTiles(launch_->body);
  for (TurnLoop& loop : loops_) {
    int64_t wanted = 0;
    Channel results = ResultsOf(loop, launch_, &wanted);
    if (results.tiles.empty() || wanted > columns) continue;
    columns -= wanted;
    loop.results = std::move(results);
  }
}

// Counts writes by threads only: TMA loads belong to the proxy of the tensor core.
bool GemmTurns::Writes(const ir::Effect& effect) const {
  bool by_tma = IsLoadByTma(effect.By<ir::CopyNode>());
  auto same = [&](const Buffer& operand) { return operand.same_as(effect.buffer); };
  return effect.Writes() && !by_tma && std::any_of(operands_.begin(), operands_.end(), same);
}

bool GemmTurns::Writes(const Stmt& s) const {
  std::vector<ir::Effect> effects = ir::EffectsOf(s);
  return std::any_of(effects.begin(), effects.end(),
                     [this](const ir::Effect& effect) { return Writes(effect); });
}

bool GemmTurns::AreWritten(const TurnLoop& loop, When when) const {
  // Visits the statements in program order, without the loop.
  class Finder : public ir::StmtVisitor {
   public:
    Finder(const GemmTurns& turns, const ir::ForNode* loop) : turns_(turns), loop_(loop) {}
    bool before = false;
    bool after = false;
    using StmtVisitor::Visit;
    void VisitStmt(const Stmt& s) override {
      if (s.get() == loop_) {
        reached_ = true;
        return;
      }
      bool around = false;
      ir::WalkStmts(s, [&](const Stmt& inner) { return !(around |= inner.get() == loop_); });
      bool repeats = s->kind == ir::StmtKind::kFor || s->kind == ir::StmtKind::kWhile;
      if (around && !repeats) return StmtVisitor::VisitStmt(s);
      if (!turns_.Writes(s)) return;
      before |= around || !reached_;
      after |= around || reached_;
    }

   private:
    const GemmTurns& turns_;
    const ir::ForNode* loop_;
    bool reached_ = false;
  };
  Finder finder(*this, loop.loop);
  finder.VisitStmt(launch_->body);
  return when == When::kBefore ? finder.before : finder.after;
}

const TurnLoop* GemmTurns::Find(const ir::StmtNode* loop_or_body) const {
  auto it = std::find_if(loops_.begin(), loops_.end(), [&](const TurnLoop& l) {
    return l.loop == loop_or_body || l.body == loop_or_body;
  });
  return it == loops_.end() ? nullptr : &*it;
}

bool GemmTurns::Releases(const Channel& channel) const {
  return std::find(released_.begin(), released_.end(), channel.tiles[0].get()) != released_.end();
}

}  // namespace tilelang::schedule
