#include "schedule/turn_loop.h"

#include <algorithm>
#include <utility>

#include "ir/effects.h"
#include "ir/same.h"
#include "ir/visitor.h"
#include "op/gemm_tcgen05.h"
#include "op/instruction.h"
#include "op/tmem.h"

namespace tilelang::schedule {

using ir::Buffer;
using ir::Stmt;

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

bool HasTurnGemm(const Stmt& s) {
  return ir::HasStmt(s, [&](const Stmt& inner) { return AsTurnGemm(inner) != nullptr; });
}

bool IsLoadByTma(const ir::CopyNode* copy) {
  const op::TileInstruction* instruction = copy != nullptr ? op::InstructionOf(copy) : nullptr;
  return instruction != nullptr && instruction->engine() == op::Engine::kTmaLoad;
}

namespace {

// Returns whether the statement fills the slots of a channel: as another role, or by threads.
bool Fills(const Stmt& s, const Channel& channel) {
  return std::any_of(channel.handovers.begin(), channel.handovers.end(), [&](const auto& handover) {
    return std::any_of(handover.loads.begin(), handover.loads.end(),
                       [&](size_t i) { return handover.seq->stmts[i].same_as(s); });
  });
}

// The threads touch what some of the gemms write, or write what they read, other than by filling a
// slot of a channel.
bool TakesPart(const Stmt& s, const std::vector<size_t>& gemms, const ir::SeqNode* body,
               const std::vector<Channel>& channels) {
  std::vector<ir::Effect> effects = ir::EffectsOf(s);
  return std::any_of(gemms.begin(), gemms.end(), [&](size_t i) {
    const auto* gemm = body->stmts[i].as<ir::GemmNode>();
    return std::any_of(effects.begin(), effects.end(), [&](const ir::Effect& effect) {
      const Buffer& b = effect.buffer;
      if (b.same_as(gemm->result()->buffer)) return true;
      if (!gemm->HasInput(b) || !effect.Writes()) return false;
      const Channel* channel = ChannelOf(b, channels);
      return channel == nullptr || !Fills(s, *channel);
    });
  });
}

// One gemm reads the result of another one.
bool AreChained(const std::vector<size_t>& gemms, const ir::SeqNode* body) {
  return std::any_of(gemms.begin(), gemms.end(), [&](size_t i) {
    const auto* reader = body->stmts[i].as<ir::GemmNode>();
    return std::any_of(gemms.begin(), gemms.end(), [&](size_t j) {
      return reader->HasInput(body->stmts[j].as<ir::GemmNode>()->result()->buffer);
    });
  });
}

// The tiles in tensor memory that no channel brings.
ir::Array<Buffer> TensorMemoryOf(const std::vector<size_t>& gemms, const ir::SeqNode* body,
                                 const std::vector<Channel>& channels) {
  ir::Array<Buffer> tiles;
  for (size_t i : gemms) {
    const auto* gemm = body->stmts[i].as<ir::GemmNode>();
    for (const ir::GemmOperand& operand : gemm->operands) {
      const Buffer& tile = operand->buffer();
      if (tile.IsTmem() && ChannelOf(tile, channels) == nullptr) ir::AddOnce(tile, &tiles);
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

enum class Apart : uint8_t {
  kNo,
  kInOrder,  // where all gemms of an iteration precede those ahead for the next
  kYes,
};

// Their operands may be the same where nobody else than the tensor core gives them back: then they
// are constant, or in a slot while the next tile is in another. A third one is filled meanwhile.
Apart HowApart(const ir::GemmNode* a, const ir::GemmNode* b, const std::vector<Channel>& channels) {
  constexpr int64_t kSlots = 3;
  Apart apart = Apart::kYes;
  for (const ir::GemmOperand& of_a : a->operands) {
    for (const ir::GemmOperand& of_b : b->operands) {
      const Buffer& tile = of_a->buffer();
      const Channel* channel = ChannelOf(tile, channels);
      bool constant = tile.IsShared() && channel == nullptr;
      if (constant || AreApart(tile, of_b->buffer())) continue;
      if (channel == nullptr) return Apart::kNo;
      if (channel->slots < kSlots) apart = Apart::kInOrder;
    }
  }
  return apart;
}

TurnStream MakeStream(std::vector<size_t> gemms, const ir::SeqNode* body,
                      const std::vector<Channel>& channels) {
  TurnStream stream;
  stream.gemms = std::move(gemms);
  for (size_t i = 0; i < body->stmts.size(); ++i) {
    const Stmt& s = body->stmts[i];
    bool is_gemm = AsTurnGemm(s) != nullptr;
    stream.part.push_back(!is_gemm && TakesPart(s, stream.gemms, body, channels));
  }
  DivideIntoTurns(&stream);
  stream.tensor_memory = TensorMemoryOf(stream.gemms, body, channels);
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
  Apart apart = Apart::kYes;
  for (size_t i : all.leading) {
    for (size_t j : others) apart = std::min(apart, HowApart(gemm(i), gemm(j), channels));
  }
  if (apart == Apart::kNo) return {all};
  TurnStream main = MakeStream(others, body, channels);
  TurnStream ahead = MakeStream(all.leading, body, channels);
  if (ahead.turns.empty()) return {all};
  if (apart == Apart::kInOrder) {
    // Threads read results of the others while the gemms ahead are done.
    if (main.turns.empty() || main.open) return {all};
    ahead.turns.back().after = std::max(ahead.turns.back().after, main.turns.back().after);
  }
  bool gains = ahead.turns.back().after < all.turns.back().after;
  if (!gains) return {all};
  return {main, ahead};
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

// Returns whether the sequence itself loads the tiles of channels that its gemm uses.
bool LoadsOperands(const ir::SeqNode* seq, const ir::GemmNode* gemm,
                   const std::vector<Channel>& channels) {
  for (const ir::GemmOperandNode* input : gemm->Inputs()) {
    const Channel* channel = ChannelOf(input->buffer(), channels);
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
  *reason = "it stands under a condition, but its tiles are loaded outside of that condition";
  for (size_t i : gemms) {
    if (!LoadsOperands(seq, seq->stmts[i].as<ir::GemmNode>(), channels)) return nullptr;
  }
  *reason = "threads work between the gemms of an iteration, which a condition may skip";
  bool apart = std::none_of(others.begin(), others.end(),
                            [&](const Stmt& s) { return TakesPart(s, gemms, seq, channels); });
  return apart ? seq : nullptr;
}

}  // namespace

std::optional<TurnLoop> FindTurnLoop(const ir::ForNode* loop, const std::vector<Channel>& channels,
                                     std::string* reason) {
  const auto* body = loop->body.as<ir::SeqNode>();
  std::vector<size_t> gemms = body != nullptr ? TurnGemmsOf(body) : std::vector<size_t>();
  bool is_guarded = gemms.empty();
  if (is_guarded) {
    body = GuardedBody(loop, channels, reason);
    if (body == nullptr) return std::nullopt;
    gemms = TurnGemmsOf(body);
  }
  if (AreChained(gemms, body)) {
    *reason = "its A is the result of another gemm";
    return std::nullopt;
  }
  return TurnLoop{loop, body, StreamsOf(gemms, body, channels), is_guarded, {}};
}

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

}  // namespace tilelang::schedule
