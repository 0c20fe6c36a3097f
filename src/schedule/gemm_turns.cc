#include "schedule/gemm_turns.h"

#include <algorithm>

#include "ir/effects.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "op/copy_tmem.h"
#include "op/cta_pair.h"
#include "op/gemm_tcgen05.h"
#include "op/issue.h"
#include "op/row_vote.h"
#include "op/tmem.h"
#include "op/wgmma.h"

namespace tilelang::schedule {

using ir::Buffer;
using ir::Stmt;
using op::kWarpgroup;

namespace {

// A gemm by tcgen05 that the compiler waits for.
const ir::GemmNode* AsTurnGemm(const Stmt& s) {
  const auto* gemm = s.as<ir::GemmNode>();
  bool fits =
      gemm != nullptr && op::InstructionOf(gemm) == op::Tcgen05Mma() && op::WaitsItself(gemm);
  return fits ? gemm : nullptr;
}

const Channel* ChannelOf(const Buffer& tile, const std::vector<Channel>& channels) {
  auto it = std::find_if(channels.begin(), channels.end(),
                         [&](const Channel& channel) { return channel.Has(tile); });
  return it == channels.end() ? nullptr : &*it;
}

// Loads of channels are another role's.
bool IsLoad(const Stmt& s, const std::vector<Channel>& channels) {
  const auto* copy = s.as<ir::CopyNode>();
  return copy != nullptr && ChannelOf(copy->dst->buffer, channels) != nullptr;
}

// The threads touch what some of the gemms write, or write what they read.
bool TakesPart(const Stmt& s, const std::vector<size_t>& gemms, const ir::SeqNode* body) {
  std::vector<ir::Effect> effects = ir::EffectsOf(s);
  return std::any_of(gemms.begin(), gemms.end(), [&](size_t i) {
    const auto* gemm = body->stmts[i].as<ir::GemmNode>();
    return std::any_of(effects.begin(), effects.end(), [&](const ir::Effect& effect) {
      const Buffer& b = effect.buffer;
      bool operand = b.same_as(gemm->a->buffer) || b.same_as(gemm->b->buffer);
      return b.same_as(gemm->c->buffer) || (operand && effect.Writes());
    });
  });
}

// A and B of one gemm are not the result of another one.
bool AreChained(const std::vector<size_t>& gemms, const ir::SeqNode* body) {
  return std::any_of(gemms.begin(), gemms.end(), [&](size_t i) {
    const Buffer& a = body->stmts[i].as<ir::GemmNode>()->a->buffer;
    return std::any_of(gemms.begin(), gemms.end(), [&](size_t j) {
      return body->stmts[j].as<ir::GemmNode>()->c->buffer.same_as(a);
    });
  });
}

ir::Array<Buffer> TensorMemoryOf(const std::vector<size_t>& gemms, const ir::SeqNode* body) {
  ir::Array<Buffer> tiles;
  for (size_t i : gemms) {
    const auto* gemm = body->stmts[i].as<ir::GemmNode>();
    for (const Buffer& tile : {gemm->a->buffer, gemm->c->buffer}) {
      auto same = [&](const Buffer& known) { return known.same_as(tile); };
      bool known = std::any_of(tiles.begin(), tiles.end(), same);
      if (tile.IsTmem() && !known) tiles.push_back(tile);
    }
  }
  return tiles;
}

// Divides the gemms of a stream into turns.
void DivideIntoTurns(TurnStream* stream) {
  const std::vector<bool>& part = stream->part;
  std::optional<size_t> last_part;
  for (size_t i = 0; i < part.size(); ++i) {
    if (part[i]) last_part = i;
  }
  stream->waits.assign(part.size(), false);
  if (!last_part) return;
  std::optional<size_t> before;  // the last statement that takes part so far
  for (size_t i = 0; i < part.size(); ++i) {
    if (part[i]) before = i;
    if (!stream->IsGemm(i)) continue;
    if (!before) {
      stream->leading.push_back(i);
    } else {
      if (stream->turns.empty() || stream->turns.back().after != *before) {
        stream->turns.push_back({{}, false, *before});
      }
      stream->turns.back().gemms.push_back(i);
    }
  }
  if (!stream->leading.empty()) {
    bool ends_with_turn = !stream->turns.empty() && stream->turns.back().after == *last_part;
    if (!ends_with_turn) stream->turns.push_back({{}, false, *last_part});
    stream->turns.back().leads = true;
  }
  stream->open = stream->turns.back().after == *last_part;
  bool under_way = stream->open;
  for (size_t i = 0; i < part.size(); ++i) {
    stream->waits[i] = part[i] && under_way;
    if (part[i]) under_way = false;
    if (stream->TurnAfter(i) != nullptr) under_way = true;
  }
}

// The tiles of two gemms lie in different places, in tensor memory as in shared.
bool AreApart(const Buffer& a, const Buffer& b) {
  auto in_columns_of = [](const Buffer& tile, const Buffer& other) {
    auto columns = tile->attrs.Get(op::kColumnsOf);
    return columns && (*columns).cast<Buffer>().same_as(other);
  };
  return !a.same_as(b) && !in_columns_of(a, b) && !in_columns_of(b, a);
}

// Their operands may be the same where nobody else than the tensor core gives them back.
bool AreApart(const ir::GemmNode* a, const ir::GemmNode* b, const std::vector<Channel>& channels) {
  for (const Buffer& of_a : {a->a->buffer, a->b->buffer, a->c->buffer}) {
    for (const Buffer& of_b : {b->a->buffer, b->b->buffer, b->c->buffer}) {
      bool constant = of_a.IsShared() && ChannelOf(of_a, channels) == nullptr;
      if (!constant && !AreApart(of_a, of_b)) return false;
    }
  }
  return true;
}

TurnStream MakeStream(std::vector<size_t> gemms, const ir::SeqNode* body,
                      const std::vector<Channel>& channels) {
  TurnStream stream;
  stream.gemms = std::move(gemms);
  for (size_t i = 0; i < body->stmts.size(); ++i) {
    const Stmt& s = body->stmts[i];
    bool threads = AsTurnGemm(s) == nullptr && !IsLoad(s, channels);
    stream.part.push_back(threads && TakesPart(s, stream.gemms, body));
  }
  DivideIntoTurns(&stream);
  stream.tensor_memory = TensorMemoryOf(stream.gemms, body);
  return stream;
}

// One stream, or two where leading gemms can begin before the threads are done with the last turn.
std::vector<TurnStream> StreamsOf(const std::vector<size_t>& gemms, const ir::SeqNode* body,
                                  const std::vector<Channel>& channels) {
  TurnStream all = MakeStream(gemms, body, channels);
  if (all.leading.empty() || all.leading.size() == gemms.size()) return {all};
  std::vector<size_t> others;
  for (size_t i : gemms) {
    if (std::find(all.leading.begin(), all.leading.end(), i) == all.leading.end()) {
      others.push_back(i);
    }
  }
  auto gemm = [&](size_t i) { return body->stmts[i].as<ir::GemmNode>(); };
  for (size_t i : all.leading) {
    for (size_t j : others) {
      if (!AreApart(gemm(i), gemm(j), channels)) return {all};
    }
  }
  TurnStream main = MakeStream(others, body, channels);
  TurnStream ahead = MakeStream(all.leading, body, channels);
  bool gains = !ahead.turns.empty() && ahead.turns.back().after < all.turns.back().after;
  if (!gains) return {all};
  return {main, ahead};
}

bool HasTurnGemm(const Stmt& s) {
  bool found = false;
  ir::WalkStmts(s, [&](const Stmt& inner) { return !(found |= AsTurnGemm(inner) != nullptr); });
  return found;
}

std::vector<size_t> TurnGemmsOf(const ir::SeqNode* seq) {
  std::vector<size_t> gemms;
  for (size_t i = 0; i < seq->stmts.size(); ++i) {
    if (AsTurnGemm(seq->stmts[i]) != nullptr) gemms.push_back(i);
  }
  return gemms;
}

// The branch of a statement under a condition; null for others, and where both branches have gemms.
const ir::SeqNode* GuardedIn(const Stmt& s) {
  const auto* branch = s.as<ir::IfNode>();
  if (branch == nullptr) return nullptr;
  bool both = branch->else_case.defined() && HasTurnGemm(branch->else_case);
  return both ? nullptr : branch->then_case.as<ir::SeqNode>();
}

// Whether the sequence itself loads the tiles of channels that its gemm uses.
bool LoadsOperands(const ir::SeqNode* seq, const ir::GemmNode* gemm,
                   const std::vector<Channel>& channels) {
  for (const Buffer& operand : {gemm->a->buffer, gemm->b->buffer}) {
    const Channel* channel = ChannelOf(operand, channels);
    if (channel == nullptr) continue;
    const auto& all = channel->handovers;
    bool here = std::any_of(all.begin(), all.end(), [&](const auto& h) { return h.seq == seq; });
    if (!here) return false;
  }
  return true;
}

// The sequence of all gemms of a loop, which stands under conditions in its body; null: there is
// none, or threads take part in what they do. Sets why.
const ir::SeqNode* GuardedBody(const ir::ForNode* loop, const std::vector<Channel>& channels,
                               std::string* reason) {
  std::vector<Stmt> others;
  const auto* seq = loop->body.as<ir::SeqNode>();
  if (seq == nullptr) seq = GuardedIn(loop->body);
  while (seq != nullptr && TurnGemmsOf(seq).empty()) {
    const ir::SeqNode* inner = nullptr;
    int holders = 0;
    for (const Stmt& s : seq->stmts) {
      if (!HasTurnGemm(s)) {
        others.push_back(s);
      } else {
        inner = ++holders == 1 ? GuardedIn(s) : nullptr;
      }
    }
    seq = inner;
  }
  *reason = "it stands in an inner statement of the loop";
  if (seq == nullptr) return nullptr;
  std::vector<size_t> gemms = TurnGemmsOf(seq);
  for (size_t i = 0; i < seq->stmts.size(); ++i) {
    const Stmt& s = seq->stmts[i];
    if (AsTurnGemm(s) != nullptr) continue;
    if (HasTurnGemm(s)) return nullptr;
    others.push_back(s);
  }
  *reason = "it stands under a condition, its tiles are loaded outside of it";
  for (size_t i : gemms) {
    if (!LoadsOperands(seq, seq->stmts[i].as<ir::GemmNode>(), channels)) return nullptr;
  }
  *reason = "threads work between the gemms of an iteration, which a condition may skip";
  bool apart = std::none_of(others.begin(), others.end(), [&](const Stmt& s) {
    return !IsLoad(s, channels) && TakesPart(s, gemms, seq);
  });
  return apart ? seq : nullptr;
}

// Why a warp of its own cannot issue the gemms; nothing when it can. These become part of `slice`.
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

bool WholeRows(const ir::Region& region, int64_t rows) {
  return region.IsWhole() && HasRows(region, 2, rows);
}

// A copy between registers and all rows of a tile in tensor memory.
bool IsCopyOfRows(const ir::CopyNode* copy, int64_t rows) {
  if (!op::IsTmemCopy(copy)) return false;
  const ir::Region& tile = copy->src->buffer.IsTmem() ? copy->src : copy->dst;
  return HasRows(tile, 2, rows) && ir::IsConst(tile->mins[0], 0);
}

// Whether threads only copy rows of their own, all of them or where any asks for it.
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

// Blocks of rows do not meet in the loop: not in its gemms, nor in what threads do beside them.
bool IsDividedByRows(const TurnLoop& loop, int64_t rows) {
  for (size_t i = 0; i < loop.body->stmts.size(); ++i) {
    const Stmt& s = loop.body->stmts[i];
    if (loop.IsGemm(i)) {
      const auto* gemm = s.as<ir::GemmNode>();
      bool whole_a = !gemm->a->buffer.IsTmem() || WholeRows(gemm->a, rows);
      if (!whole_a || !HasRows(gemm->a, gemm->trans_a ? 1 : 2, rows)) return false;
      if (!WholeRows(gemm->c, rows)) return false;
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

// The gemms overwrite the tile first, and but for them threads only read it, in statements after
// the loop. Sets where they do.
bool IsResult(const Buffer& tile, const TurnLoop& loop, const ir::KernelLaunchNode* launch,
              Handover* handover) {
  for (size_t i : loop.main().gemms) {
    const auto* gemm = loop.body->stmts[i].as<ir::GemmNode>();
    if (gemm->a->buffer.same_as(tile)) return false;
    if (!gemm->c->buffer.same_as(tile)) continue;
    if (!gemm->c.IsWhole() || !ir::ClearsFirst(gemm, loop.loop)) return false;
    break;
  }
  int uses = ir::CountEffects(loop.loop->body, tile);
  const auto& stmts = handover->seq->stmts;
  for (size_t i = handover->loads.front() + 1; i < stmts.size(); ++i) {
    for (const ir::Effect& effect : ir::EffectsOf(stmts[i])) {
      if (!effect.buffer.same_as(tile)) continue;
      if (effect.Writes()) return false;
      ++uses;
      if (handover->first_use == 0) handover->first_use = i;
      handover->last_use = std::max(handover->last_use, i);
    }
    if (ir::MayLeaveLoop(stmts[i])) return false;
  }
  return handover->first_use > 0 && uses == ir::CountEffects(launch->body, tile);
}

// What the tensor core can go on from: the results of a loop that is one turn, inside another loop.
// `columns`: what a second slot takes.
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
    *columns += op::ColumnsOf(tile, op::LayoutForRole(tile, op::TmemRole::kAccumulator));
  }
  results.handovers.push_back(handover);
  return results;
}

}  // namespace

bool TurnStream::IsGemm(size_t i) const {
  return std::find(gemms.begin(), gemms.end(), i) != gemms.end();
}

const Turn* TurnStream::TurnAfter(size_t i) const {
  auto it = std::find_if(turns.begin(), turns.end(), [&](const Turn& t) { return t.after == i; });
  return it == turns.end() ? nullptr : &*it;
}

bool TurnLoop::IsGemm(size_t i) const {
  return std::any_of(streams.begin(), streams.end(),
                     [&](const TurnStream& stream) { return stream.IsGemm(i); });
}

bool TurnLoop::IsPart(size_t i) const {
  return std::any_of(streams.begin(), streams.end(),
                     [&](const TurnStream& stream) { return stream.part[i]; });
}

std::vector<size_t> TurnLoop::Gemms() const {
  std::vector<size_t> all;
  for (size_t i = 0; i < body->stmts.size(); ++i) {
    if (IsGemm(i)) all.push_back(i);
  }
  return all;
}

bool TurnLoop::IsSplit(const Handover& handover) const {
  bool leads = false;
  bool follows = false;
  for (const TurnStream& stream : streams) {
    for (size_t i : stream.gemms) {
      if (i < handover.first_use || i > handover.last_use) continue;
      const auto& leading = stream.leading;
      bool leading_gemm = std::find(leading.begin(), leading.end(), i) != leading.end();
      (leading_gemm ? leads : follows) = true;
    }
  }
  return leads && follows;
}

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
    barriers_.push_back({op::MakeRingBarrier(name + "_ready", blocks_,
                                             threads / blocks_ * (in_pairs_ ? 2 : 1), launch->span),
                         op::MakeRingBarrier(name + "_done", blocks_, 1, launch->span)});
  }
}

void GemmTurns::AddLoop(const ir::ForNode* loop, const std::vector<Channel>& channels) {
  const auto* body = loop->body.as<ir::SeqNode>();
  std::vector<size_t> gemms = body != nullptr ? TurnGemmsOf(body) : std::vector<size_t>();
  bool is_guarded = gemms.empty();
  std::string reason;
  if (is_guarded) {
    body = GuardedBody(loop, channels, &reason);
    if (body != nullptr) gemms = TurnGemmsOf(body);
  }
  if (body != nullptr && AreChained(gemms, body)) reason = "its A is the result of another gemm";
  if (body == nullptr || AreChained(gemms, body)) return RemarkByThreads(loop, reason);
  loops_.push_back({loop, body, StreamsOf(gemms, body, channels), is_guarded, {}});
}

// But for the gemms of loops inside, which are asked for themselves.
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
  bool found = false;
  for (const Stmt& s : loop.body->stmts) {
    ir::WalkStmts(s, [&](const Stmt& inner) { return !(found |= Find(inner.get()) != nullptr); });
  }
  return found;
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
      return std::any_of(stream.tensor_memory.begin(), stream.tensor_memory.end(),
                         [&](const Buffer& known) { return known.same_as(tile); });
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
      for (const Buffer& b : {gemm->a->buffer, gemm->b->buffer}) {
        if (!b.IsShared() || ChannelOf(b, channels) != nullptr) continue;
        auto same = [&](const Buffer& known) { return known.same_as(b); };
        if (std::none_of(operands_.begin(), operands_.end(), same)) operands_.push_back(b);
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

// By threads: loads by TMA are of the tensor core's own proxy.
bool GemmTurns::Writes(const ir::Effect& effect) const {
  const auto* copy = effect.By<ir::CopyNode>();
  bool by_tma = copy != nullptr && op::InstructionOf(copy) != nullptr &&
                op::InstructionOf(copy)->engine() == op::Engine::kTmaLoad;
  auto same = [&](const Buffer& operand) { return operand.same_as(effect.buffer); };
  return effect.Writes() && !by_tma && std::any_of(operands_.begin(), operands_.end(), same);
}

bool GemmTurns::Writes(const Stmt& s) const {
  std::vector<ir::Effect> effects = ir::EffectsOf(s);
  return std::any_of(effects.begin(), effects.end(),
                     [this](const ir::Effect& effect) { return Writes(effect); });
}

bool GemmTurns::AreWritten(const TurnLoop& loop, When when) const {
  // In the order of the program, with the loop left out.
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
