#include "schedule/free_running.h"

#include <tvm/ffi/cast.h>

#include <algorithm>

#include "ir/effects.h"
#include "ir/visitor.h"
#include "op/gemm_tcgen05.h"

namespace tilelang::schedule {

using ir::Buffer;
using ir::Stmt;

namespace {

const ir::GemmNode* AsFreeGemm(const Stmt& s) {
  const auto* gemm = s.as<ir::GemmNode>();
  bool free =
      gemm != nullptr && op::InstructionOf(gemm) == op::Tcgen05Mma() && op::WaitsItself(gemm);
  return free ? gemm : nullptr;
}

// The gemms directly in the body of a loop.
std::vector<const ir::GemmNode*> GemmsOf(const ir::SeqNode* body) {
  std::vector<const ir::GemmNode*> gemms;
  for (const Stmt& s : body->stmts) {
    if (const ir::GemmNode* gemm = AsFreeGemm(s)) gemms.push_back(gemm);
  }
  return gemms;
}

bool IsOneOf(const tvm::ffi::Object* node, const std::vector<const ir::GemmNode*>& gemms) {
  return std::find(gemms.begin(), gemms.end(), node) != gemms.end();
}

// The channel that brings the tile to the loop; null for none.
const Channel* ChannelOf(const Buffer& tile, const std::vector<Channel>& channels) {
  for (const Channel& channel : channels) {
    if (channel.Has(tile)) return &channel;
  }
  return nullptr;
}

// Loads of channels are another role's.
bool IsLoad(const Stmt& s, const std::vector<Channel>& channels) {
  const auto* copy = s.as<ir::CopyNode>();
  return copy != nullptr && ChannelOf(copy->dst->buffer, channels) != nullptr;
}

bool MayRunFree(const ir::SeqNode* body, const std::vector<Channel>& channels) {
  std::vector<const ir::GemmNode*> gemms = GemmsOf(body);
  bool free = !gemms.empty();
  for (const Stmt& s : body->stmts) {
    free =
        free && (IsOneOf(s.get(), gemms) || IsLoad(s, channels) || s->kind == ir::StmtKind::kBind);
  }
  for (const ir::GemmNode* gemm : gemms) {
    const Channel* a = ChannelOf(gemm->a->buffer, channels);
    const Channel* b = ChannelOf(gemm->b->buffer, channels);
    bool chained = std::any_of(gemms.begin(), gemms.end(), [&](const ir::GemmNode* other) {
      return other->c->buffer.same_as(gemm->a->buffer);
    });
    free = free && !chained && (a == nullptr || b == nullptr || a == b);
  }
  return free;
}

// Every use of the channel is a gemm of a loop that may run free.
bool UsedByGemmsAlone(const Channel& channel,
                      const std::unordered_set<const ir::SeqNode*>& bodies) {
  return std::all_of(channel.handovers.begin(), channel.handovers.end(), [&](const Handover& h) {
    if (bodies.count(h.seq) == 0) return false;
    for (size_t i = h.first_use; i <= h.last_use; ++i) {
      const Stmt& s = h.seq->stmts[i];
      if (AsFreeGemm(s) != nullptr) continue;
      for (const ir::Effect& effect : ir::EffectsOf(s)) {
        if (channel.Has(effect.buffer)) return false;
      }
    }
    return AsFreeGemm(h.seq->stmts[h.last_use]) != nullptr;
  });
}

}  // namespace

FreeRunning::FreeRunning(const ir::KernelLaunchNode* launch, const std::vector<Channel>& channels) {
  std::unordered_set<const ir::SeqNode*> bodies;
  std::vector<const ir::ForNode*> loops;
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* loop = s.as<ir::ForNode>();
    const auto* body = loop != nullptr ? loop->body.as<ir::SeqNode>() : nullptr;
    if (body == nullptr || StagesOf(loop) < 2 || !MayRunFree(body, channels)) return true;
    bodies.insert(body);
    loops.push_back(loop);
    return true;
  });
  // A channel that another loop uses otherwise takes its loops away, and they their channels.
  for (bool changed = true; changed;) {
    changed = false;
    for (const Channel& channel : channels) {
      if (UsedByGemmsAlone(channel, bodies)) continue;
      for (const Handover& h : channel.handovers) changed |= bodies.erase(h.seq) != 0;
    }
  }
  for (const ir::ForNode* loop : loops) {
    if (bodies.count(loop->body.as<ir::SeqNode>()) != 0) loops_.insert(loop);
  }
  for (const Channel& channel : channels) {
    if (UsedByGemmsAlone(channel, bodies)) released_.insert(Key(channel));
  }
}

Stmt FreeRunningGemm(const ir::GemmNode* gemm, const ir::Expr& releases) {
  auto annotations = gemm->annotations;
  annotations.Set(op::kTcgen05Ordered, true);
  const op::TilePlanNode* plan = op::TilePlanOf(gemm);
  op::ThreadRange warp{plan->threads.begin, 32};
  if (!releases.defined()) annotations.Set("is_tcgen05", true);
  Stmt issued = ir::Gemm(gemm->a, gemm->b, gemm->c, gemm->trans_a, gemm->trans_b, gemm->clear_accum,
                         releases, annotations, gemm->span);
  return ir::WithPlan(
      issued, op::TilePlan(tvm::ffi::make_object<op::TilePlanNode>(plan->instruction, warp)));
}

}  // namespace tilelang::schedule
