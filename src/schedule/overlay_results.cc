#include "schedule/overlay_results.h"

#include <algorithm>
#include <vector>

#include "analysis/kernel_scope.h"
#include "ir/effects.h"
#include "ir/same.h"
#include "ir/visitor.h"
#include "memory/plan_shared_memory.h"
#include "op/copy_cluster.h"
#include "schedule/channel.h"
#include "schedule/turn_loop.h"
#include "target/warp.h"

namespace tilelang::schedule {

using ir::Buffer;
using ir::Stmt;

namespace {

constexpr const char* kLayouts = "layout_map";

// A loop as statement number `at` of a sequence that runs once in a block.
struct LoopPlace {
  const ir::SeqNode* seq = nullptr;
  size_t at = 0;
};

// Returns the place of the loop; an empty one if it is inside of another loop.
LoopPlace FindPlace(const ir::KernelLaunchNode* launch, const ir::ForNode* loop) {
  LoopPlace place;
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    if (s->kind == ir::StmtKind::kFor || s->kind == ir::StmtKind::kWhile) return false;
    const auto* seq = s.as<ir::SeqNode>();
    for (size_t i = 0; seq != nullptr && i < seq->stmts.size(); ++i) {
      if (seq->stmts[i].get() == loop) place = {seq, i};
    }
    return true;
  });
  return place;
}

// Tiles that only TMA loads and GEMMs of the loop touch, all of them statements of its body.
std::vector<Buffer> OperandsOf(const ir::KernelLaunchNode* launch, const ir::ForNode* loop) {
  std::vector<Buffer> operands;
  const auto* body = loop->body.as<ir::SeqNode>();
  if (body == nullptr) return operands;
  for (const Stmt& s : body->stmts) {
    const auto* copy = s.as<ir::CopyNode>();
    if (IsLoadByTma(copy)) ir::AddOnce(copy->dst->buffer, &operands);
  }
  std::erase_if(operands, [&](const Buffer& tile) {
    int uses = 0;
    for (const Stmt& s : body->stmts) {
      const ir::GemmNode* gemm = AsTurnGemm(s);
      bool reads = gemm != nullptr && gemm->HasInput(tile);
      if (reads || IsLoadByTma(s.as<ir::CopyNode>())) uses += ir::CountEffects(s, tile);
    }
    return uses != ir::CountEffects(launch->body, tile);
  });
  return operands;
}

// Shared tiles that only threads touch, all of them after the loop. Other blocks may send to a tile
// at any time.
std::vector<Buffer> ResultsAfter(const ir::KernelLaunchNode* launch, const LoopPlace& place) {
  std::vector<Buffer> results;
  ir::WalkStmts(launch->body, [&](const Stmt& s) {
    const auto* alloc = s.as<ir::AllocNode>();
    if (alloc == nullptr || !alloc->buffer.IsShared()) return true;
    const Buffer& tile = alloc->buffer;
    int uses = 0;
    for (size_t i = place.at + 1; i < place.seq->stmts.size(); ++i) {
      ir::WalkEffects(place.seq->stmts[i], [&](const ir::Effect& effect) {
        const auto* copy = effect.Writes() ? effect.By<ir::CopyNode>() : nullptr;
        bool loaded = effect.By<ir::GemmNode>() != nullptr ||
                      (copy != nullptr && (copy->src->buffer.IsGlobal() || copy->block.defined()));
        uses += effect.buffer.same_as(tile) && !loaded ? 1 : 0;
      });
    }
    if (uses > 0 && uses == ir::CountEffects(launch->body, tile)) ir::AddOnce(tile, &results);
    return true;
  });
  return results;
}

// Returns the attributes of the launch, with the layouts of the new buffers.
ir::Map<ir::String, ir::Any> AttrsFor(const ir::KernelLaunchNode* launch,
                                      const ir::Map<Buffer, Buffer>& replacement) {
  auto attrs = launch->attrs;
  auto given = attrs.Get(kLayouts);
  if (!given) return attrs;
  ir::Map<Buffer, ir::Any> layouts;
  for (const auto& [tile, layout] : (*given).cast<ir::Map<Buffer, ir::Any>>()) {
    layouts.Set(replacement.Get(tile).value_or(tile), layout);
  }
  attrs.Set(kLayouts, layouts);
  return attrs;
}

// The only pipelined loop of a launch whose GEMMs tcgen05.mma computes; null for others.
const ir::ForNode* OnlyLoop(const Stmt& launch) {
  const ir::ForNode* only = nullptr;
  int loops = 0;
  ir::WalkStmts(launch, [&](const Stmt& s) {
    const auto* loop = s.as<ir::ForNode>();
    if (loop == nullptr || StagesOf(loop) < 2) return true;
    only = loop;
    ++loops;
    return true;
  });
  return loops == 1 && HasTurnGemm(only->body) ? only : nullptr;
}

}  // namespace

bool HasMulticast(const Stmt& launch) {
  return ir::HasStmt(launch, [](const Stmt& s) {
    const auto* copy = s.as<ir::CopyNode>();
    return copy != nullptr && copy->options->cluster_mask != 0;
  });
}

Stmt OverlayResults(const Stmt& launch) {
  const ir::ForNode* loop = OnlyLoop(launch);
  return loop == nullptr ? launch : OverlayResults(launch, loop, /*has_turns=*/false);
}

Stmt OverlayResults(const Stmt& launch, const ir::ForNode* loop, bool has_turns) {
  const auto* op = launch.as<ir::KernelLaunchNode>();
  LoopPlace place = FindPlace(op, loop);
  bool waits = analysis::ThreadsOf(op).count <= kWarpgroup || !has_turns;
  if (place.seq == nullptr || !waits || HasMulticast(launch)) return launch;
  std::vector<Buffer> operands = OperandsOf(op, loop);
  std::vector<Buffer> results = ResultsAfter(op, place);
  if (operands.empty() || results.empty()) return launch;
  ir::Map<Buffer, Buffer> marked;
  for (const Buffer& tile : operands) marked.Set(tile, Marked(tile, memory::kOverlaid));
  for (const Buffer& tile : results) marked.Set(tile, Marked(tile, memory::kOverlays));
  Stmt body = ir::ReplaceBuffers(op->body, marked);
  return ir::KernelLaunch(op->block_vars, op->grid, op->thread_vars, op->threads,
                          AttrsFor(op, marked), body, op->span);
}

}  // namespace tilelang::schedule
