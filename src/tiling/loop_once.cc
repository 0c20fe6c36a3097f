#include "tiling/loop_once.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "analysis/grid_blocks.h"
#include "ir/changed_launch.h"
#include "ir/effects.h"
#include "schedule/channel.h"
#include "tiling/loop_stages.h"
#include "tiling/residency.h"

namespace tilelang::tiling {

using ir::Stmt;
using ir::StmtKind;

namespace {

// Fewer blocks take as long as an empty launch, whatever their tiles are.
constexpr int64_t kLeastBlocks = 8;

// Returns the shared tiles that GEMMs of these statements read.
std::unordered_set<const ir::BufferNode*> OperandsOf(const std::vector<Stmt>& stmts) {
  std::unordered_set<const ir::BufferNode*> operands;
  for (const Stmt& s : stmts) {
    const auto* gemm = s.as<ir::GemmNode>();
    if (gemm == nullptr) continue;
    for (const ir::GemmOperandNode* input : gemm->Inputs()) operands.insert(input->buffer().get());
  }
  return operands;
}

bool IsLoadOf(const Stmt& s, const std::unordered_set<const ir::BufferNode*>& tiles) {
  const auto* copy = s.as<ir::CopyNode>();
  return copy != nullptr && copy->src->buffer.IsGlobal() && copy->dst->buffer.IsShared() &&
         tiles.count(copy->dst->buffer.get()) != 0;
}

// Returns whether the statement may run before the loads and gemms that stand before it.
bool CanComeFirst(const Stmt& s, const std::vector<Stmt>& before) {
  if (s->kind == StmtKind::kAlloc) return true;
  const auto* fill = s.as<ir::FillNode>();
  bool fills = fill != nullptr && fill->dst->buffer.IsFragment() &&
               (fill->value.as<ir::FloatImmNode>() != nullptr || ir::AsInt(fill->value));
  return fills && std::none_of(before.begin(), before.end(), [&](const Stmt& earlier) {
           return ir::CountEffects(earlier, fill->dst->buffer) > 0;
         });
}

}  // namespace

ir::KernelLaunch WithLoopOnce(const ir::KernelLaunchNode* launch) {
  auto self = ir::ffi::GetRef<ir::KernelLaunch>(launch);
  const auto* body = launch->body.as<ir::SeqNode>();
  if (body == nullptr || analysis::BlocksOf(launch) < kLeastBlocks) return self;
  std::vector<Stmt> stmts(body->stmts.begin(), body->stmts.end());
  auto tiles = OperandsOf(stmts);
  auto belongs = [&](const Stmt& s) { return s->kind == StmtKind::kGemm || IsLoadOf(s, tiles); };
  auto begin = std::find_if(stmts.begin(), stmts.end(), belongs);
  auto end = std::find_if(stmts.rbegin(), stmts.rend(), belongs).base();
  if (tiles.empty() || begin == stmts.end()) return self;
  std::vector<Stmt> looped;
  std::vector<Stmt> around(stmts.begin(), begin);
  for (auto s = begin; s != end; ++s) {
    if (!belongs(*s) && !CanComeFirst(*s, looped)) return self;
    (belongs(*s) ? looped : around).push_back(*s);
  }
  ir::Var step("step", ir::dtypes::kInt32);
  ir::Expr zero = ir::Const(step.dtype(), 0);
  ir::For once(step, zero, zero + 1, ir::ForKind::kPipelined, ir::Seq(looped), {},
               looped.front().span());
  around.push_back(schedule::WithStages(once.operator->(), kStagesBeforeChoice));
  around.insert(around.end(), end, stmts.end());
  return ir::WithBody(launch, ir::Seq(around, body->span));
}

}  // namespace tilelang::tiling
