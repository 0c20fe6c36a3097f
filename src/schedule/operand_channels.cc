#include "schedule/operand_channels.h"

#include <algorithm>
#include <optional>
#include <string>

#include "analysis/grid_blocks.h"
#include "ir/effects.h"
#include "ir/remark.h"
#include "ir/same.h"
#include "ir/visitor.h"
#include "op/cta_pair.h"
#include "op/tmem.h"
#include "schedule/shared_bytes.h"
#include "schedule/turn_loop.h"

namespace tilelang::schedule {

using ir::Buffer;
using ir::Stmt;

namespace {

// The operands of the gemms of a loop's body that no channel loads: A in tensor memory, and shared
// tiles that a statement of the body writes.
ir::Array<Buffer> OperandsOf(const ir::SeqNode* body, const std::vector<Channel>& loaded) {
  ir::Array<Buffer> operands;
  for (const Stmt& s : body->stmts) {
    const ir::GemmNode* gemm = AsTurnGemm(s);
    if (gemm == nullptr) continue;
    for (const ir::GemmOperandNode* input : gemm->Inputs()) {
      const Buffer& tile = input->buffer();
      bool own = tile.IsTmem() && tile->attrs.count(op::kColumnsOf) == 0;
      bool shared = tile.IsShared() && ChannelOf(tile, loaded) == nullptr;
      bool written = shared && std::any_of(body->stmts.begin(), body->stmts.end(),
                                           [&](const Stmt& t) { return ir::Writes(t, tile); });
      if (own || written) ir::AddOnce(tile, &operands);
    }
  }
  return operands;
}

// Returns whether threads overwrite the whole operand by the statement, and do not read it.
bool Fills(const Stmt& s, const Buffer& operand) {
  if (ir::CountEffects(s, operand) != 1) return false;
  const auto* copy = s.as<ir::CopyNode>();
  bool by_threads = copy != nullptr ? copy->src->buffer.IsFragment()
                                    : s->kind == ir::StmtKind::kParallelFor && operand.IsShared();
  return by_threads && ir::OverwritesFirst(s, operand);
}

// The channel of an operand; nothing where other statements than one that fills it and gemms use
// it.
std::optional<Channel> ChannelOfOperand(const Buffer& operand, const ir::SeqNode* body,
                                        const ir::KernelLaunchNode* launch) {
  Handover handover{body, {}, 0, 0};
  int uses = 0;
  for (size_t i = 0; i < body->stmts.size(); ++i) {
    const Stmt& s = body->stmts[i];
    int count = ir::CountEffects(s, operand);
    uses += count;
    if (count == 0) continue;
    if (handover.loads.empty()) {
      if (!Fills(s, operand)) return std::nullopt;
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
  for (const Buffer& operand : OperandsOf(body, loaded)) {
    auto channel = ChannelOfOperand(operand, body, launch);
    if (!channel || (operand.IsShared() && op::HasGemmsInPairs(launch->body))) return {};
    channels.push_back(*channel);
  }
  if (channels.empty()) return {};
  std::vector<Channel> all = loaded;
  all.insert(all.end(), channels.begin(), channels.end());
  std::string reason;
  auto turns = FindTurnLoop(loop, all, &reason);
  return turns && turns->IsOneTurn() ? channels : std::vector<Channel>();
}

// Returns the bytes of the second slots in shared memory.
int64_t BytesOfSecondSlots(const std::vector<Channel>& operands) {
  int64_t bytes = 0;
  for (const Channel& channel : operands) {
    const Buffer& tile = channel.tiles.front();
    if (tile.IsShared()) bytes += TileBytes(tile);
  }
  return bytes;
}

// Returns whether shared memory has room for so many bytes more, and an SM then still holds two
// blocks, if it holds two or more without them and the grid has so many. Tiles that the loop does
// not use, as those of an epilogue, may take bytes of those that it uses.
bool HasRoom(const ir::KernelLaunchNode* launch, const ir::ForNode* loop, int64_t more,
             const Target& target) {
  if (more == 0) return true;
  int64_t all = SharedBytes(launch) + kBytesBesideTiles;
  if (all + more > target->shared_memory_per_block) return false;
  int64_t unused = 0;
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* alloc = s.as<ir::AllocNode>();
    bool apart = alloc != nullptr && alloc->buffer.IsShared() &&
                 ir::CountEffects(loop->body, alloc->buffer) == 0;
    if (apart) unused += TileBytes(alloc->buffer);
    return true;
  });
  int64_t before = target->shared_memory_per_sm / (all - unused);
  int64_t after = target->shared_memory_per_sm / (all - unused + more);
  int64_t most = analysis::BlocksOf(launch) > target->sm_count ? 2 : 1;
  return after >= std::min(before, most);
}

void RemarkOperandSlots(const std::vector<Channel>& channels) {
  for (const Channel& channel : channels) {
    const Handover& handover = channel.handovers.front();
    Remark(handover.seq->stmts[handover.loads.front()].span(), "pipeline",
           "two slots of \"" + channel.Name() + "\" in " +
               (channel.tiles.front().IsTmem() ? "tensor" : "shared") +
               " memory: threads store the operand of the next iteration while the tensor core "
               "reads this one");
  }
}

}  // namespace

std::vector<Channel> FindOperandChannels(const ir::KernelLaunchNode* launch,
                                         const std::vector<Channel>& loaded, int64_t columns,
                                         const Target& target) {
  std::vector<Channel> found;
  columns -= op::ColumnsOfTiles(launch->body);
  int64_t bytes = 0;
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* loop = s.as<ir::ForNode>();
    if (loop == nullptr) return true;
    std::vector<Channel> channels = ChannelsOf(loop, launch, loaded);
    int64_t wanted = ColumnsOfSecondSlots(channels);
    if (channels.empty() || wanted > columns) return true;
    int64_t more = bytes + BytesOfSecondSlots(channels);
    if (!HasRoom(launch, loop, more, target)) return true;
    bytes = more;
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
    if (!tile.IsTmem()) continue;
    columns += op::ColumnsOf(tile, op::LayoutForRole(tile, op::TmemRole::kOperandA));
  }
  return columns;
}

}  // namespace tilelang::schedule
