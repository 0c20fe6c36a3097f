#include "schedule/operand_channels.h"

#include <algorithm>
#include <optional>
#include <string>

#include "ir/effects.h"
#include "ir/remark.h"
#include "ir/same.h"
#include "ir/visitor.h"
#include "op/tmem.h"
#include "schedule/turn_loop.h"

namespace tilelang::schedule {

using ir::Buffer;
using ir::Stmt;

namespace {

constexpr int64_t kOperandSlots = 2;

// The operands A in tensor memory of the gemms of a loop's body.
ir::Array<Buffer> OperandsOf(const ir::SeqNode* body) {
  ir::Array<Buffer> operands;
  for (const Stmt& s : body->stmts) {
    const ir::GemmNode* gemm = AsTurnGemm(s);
    if (gemm == nullptr) continue;
    for (const ir::GemmOperandNode* input : gemm->Inputs()) {
      const Buffer& tile = input->buffer();
      bool own = tile.IsTmem() && tile->attrs.count(op::kColumnsOf) == 0;
      if (own) ir::AddOnce(tile, &operands);
    }
  }
  return operands;
}

// The channel of an operand; nothing where other statements than one copy and gemms use it.
std::optional<Channel> ChannelOfOperand(const Buffer& operand, const ir::SeqNode* body,
                                        const ir::KernelLaunchNode* launch) {
  Handover handover{body, {}, 0, 0};
  int uses = 0;
  for (size_t i = 0; i < body->stmts.size(); ++i) {
    const Stmt& s = body->stmts[i];
    int count = ir::CountEffects(s, operand);
    uses += count;
    if (count == 0) continue;
    const auto* copy = s.as<ir::CopyNode>();
    if (handover.loads.empty()) {
      bool fills = copy != nullptr && copy->dst->buffer.same_as(operand) && copy->dst.IsWhole() &&
                   copy->src->buffer.IsFragment();
      if (!fills) return std::nullopt;
      handover.loads.push_back(i);
      continue;
    }
    const ir::GemmNode* gemm = AsTurnGemm(s);
    if (gemm == nullptr || gemm->result()->buffer.same_as(operand)) return std::nullopt;
    if (handover.first_use == 0) handover.first_use = i;
    handover.last_use = i;
  }
  bool stays = std::none_of(body->stmts.begin(), body->stmts.end(),
                            [](const Stmt& s) { return ir::MayLeaveLoop(s); });
  bool crosses = handover.first_use > 0 && stays && uses == ir::CountEffects(launch->body, operand);
  if (!crosses) return std::nullopt;
  return Channel{{operand}, kOperandSlots, {handover}};
}

// The channels of a loop; none where its threads and gemms take turns in spite of them.
std::vector<Channel> ChannelsOf(const ir::ForNode* loop, const ir::KernelLaunchNode* launch,
                                const std::vector<Channel>& loaded) {
  const auto* body = loop->body.as<ir::SeqNode>();
  if (body == nullptr || StagesOf(loop) < 2) return {};
  std::vector<Channel> channels;
  for (const Buffer& operand : OperandsOf(body)) {
    auto channel = ChannelOfOperand(operand, body, launch);
    if (!channel) return {};
    channels.push_back(*channel);
  }
  if (channels.empty()) return {};
  std::vector<Channel> all = loaded;
  all.insert(all.end(), channels.begin(), channels.end());
  std::string reason;
  auto turns = FindTurnLoop(loop, all, &reason);
  return turns && turns->IsOneTurn() ? channels : std::vector<Channel>();
}

void RemarkOperandSlots(const std::vector<Channel>& channels) {
  for (const Channel& channel : channels) {
    const Handover& handover = channel.handovers.front();
    Remark(handover.seq->stmts[handover.loads.front()].span(), "pipeline",
           "T.copy: two slots of \"" + channel.Name() +
               "\" in tensor memory: threads store the operand of the next iteration while the "
               "tensor core reads this one");
  }
}

}  // namespace

std::vector<Channel> FindOperandChannels(const ir::KernelLaunchNode* launch,
                                         const std::vector<Channel>& loaded, int64_t columns) {
  std::vector<Channel> found;
  columns -= op::ColumnsOfTiles(launch->body);
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* loop = s.as<ir::ForNode>();
    if (loop == nullptr) return true;
    std::vector<Channel> channels = ChannelsOf(loop, launch, loaded);
    int64_t wanted = ColumnsOfSecondSlots(channels);
    if (channels.empty() || wanted > columns) return true;
    columns -= wanted;
    RemarkOperandSlots(channels);
    found.insert(found.end(), channels.begin(), channels.end());
    return true;
  });
  return found;
}

int64_t ColumnsOfSecondSlots(const std::vector<Channel>& operands) {
  int64_t columns = 0;
  for (const Channel& channel : operands) {
    const Buffer& tile = channel.tiles.front();
    columns += op::ColumnsOf(tile, op::LayoutForRole(tile, op::TmemRole::kOperandA));
  }
  return columns;
}

}  // namespace tilelang::schedule
