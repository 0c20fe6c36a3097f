#include "schedule/task.h"

#include <algorithm>

#include "ir/aliases.h"
#include "ir/async.h"
#include "ir/effects.h"
#include "ir/visitor.h"
#include "op/gemm_wgmma.h"

namespace tilelang::schedule {

using ir::Expr;
using ir::Stmt;

namespace {

bool Intersect(const TaskNode::Objects& a, const TaskNode::Objects& b) {
  return std::any_of(a.begin(), a.end(), [&](const auto* object) { return b.count(object) != 0; });
}

const ir::GemmNode* AsyncGemm(const Task& task) {
  if (task.kind != TaskKind::kWork || task.stmts.size() != 1) return nullptr;
  const auto* gemm = task.stmts.front().as<ir::GemmNode>();
  bool async = gemm != nullptr && op::InstructionOf(gemm) != nullptr &&
               op::InstructionOf(gemm)->engine() == op::Engine::kWgmma &&
               op::GroupsInFlight(gemm) == 0;
  return async ? gemm : nullptr;
}

}  // namespace

bool CanMove(const Task& task) {
  if (task.kind != TaskKind::kWork) return true;
  const Stmt& s = task.stmts.front();
  bool visible = s->kind != ir::StmtKind::kEvaluate && !ir::IsOrdering(s) &&
                 s->kind != ir::StmtKind::kAssume && s->kind != ir::StmtKind::kAssert;
  const auto* alloc = s.as<ir::AllocNode>();
  if (alloc != nullptr && alloc->buffer->attrs.count("init") != 0) return false;
  return visible && !ir::MayLeaveLoop(s);
}

TaskNode::TaskNode(const Task& task) : task(&task), gemm(AsyncGemm(task)) {
  for (const Stmt& s : task.stmts) {
    ir::WalkEffects(s, [&](const ir::Effect& effect) {
      if (effect.Reads()) reads.insert(ir::MemoryOf(effect.buffer));
      if (effect.Writes()) writes.insert(ir::MemoryOf(effect.buffer));
    });
    ir::WalkExprs(s, [&](const Expr& e) {
      if (e->kind == ir::ExprKind::kVar) reads.insert(e.get());
      return true;
    });
    if (const auto* bind = s.as<ir::BindNode>()) writes.insert(bind->var.get());
  }
  for (const ir::Buffer& tile : task.tiles) writes.insert(tile.get());
}

bool TaskNode::ConflictsWith(const TaskNode& other) const {
  return Intersect(writes, other.writes) || Intersect(writes, other.reads) ||
         Intersect(reads, other.writes) || KeepsFrom(other) || other.KeepsFrom(*this);
}

bool TaskNode::KeepsFrom(const TaskNode& other) const {
  if (gemm == nullptr || other.gemm != nullptr) return false;
  std::vector<const ir::GemmOperandNode*> inputs = gemm->Inputs();
  return std::any_of(inputs.begin(), inputs.end(), [&](const auto* input) {
    return input->buffer().IsFragment() && other.reads.count(input->buffer().get()) != 0;
  });
}

size_t GemmsInFlight::Awaited(const TaskNode& node) const {
  size_t count = gemms_.size();
  while (count > 0 && !nodes_[gemms_[count - 1]].ConflictsWith(node)) --count;
  return count;
}

void GemmsInFlight::Retire(size_t count) {
  gemms_.erase(gemms_.begin(), gemms_.begin() + static_cast<int64_t>(count));
}

}  // namespace tilelang::schedule
