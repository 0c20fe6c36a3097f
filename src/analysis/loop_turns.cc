#include "analysis/loop_turns.h"

#include <algorithm>
#include <limits>

#include "arith/analyzer.h"
#include "ir/visitor.h"

namespace tilelang::analysis {

using arith::MovingBox;
using ir::Array;
using ir::Expr;
using ir::Stmt;

std::vector<DisjointStores> DisjointStoresOf(const ir::ForNode* loop) {
  std::vector<DisjointStores> promises;
  auto noted = loop->annotations.Get(kDisjointStores);
  if (!noted) return promises;
  for (const auto& pair : (*noted).cast<Array<Array<ir::Any>>>()) {
    promises.push_back({std::string(pair[0].cast<ir::String>()), pair[1].cast<ir::Span>()});
  }
  return promises;
}

LoopTurns::LoopTurns(const Stmt& loop, const ir::KernelLaunchNode* launch) {
  const auto* op = loop.as<ir::ForNode>();
  if (op != nullptr) promises_ = DisjointStoresOf(op);
  if (op != nullptr) var_ = op->var;
  auto min = op == nullptr ? std::nullopt : ir::AsInt(op->min);
  auto extent = op == nullptr ? std::nullopt : ir::AsInt(op->extent);
  if (!min || !extent) return;
  turns_ = {op->var, *min, *extent};
  ir::WalkStmts(op->body, [&](const Stmt& s) {
    if (const auto* inner = s.as<ir::ForNode>()) inside_.insert(inner->var.get());
    if (const auto* bind = s.as<ir::BindNode>()) {
      names_.Set(bind->var, ir::Substitute(bind->value, names_));
    }
    if (const auto* parallel = s.as<ir::ParallelForNode>()) {
      for (const ir::Var& var : parallel->vars) inside_.insert(var.get());
    }
    return true;
  });
  TakeConditions(op->body);
  for (size_t i = 0; i < launch->block_vars.size(); ++i) {
    auto blocks = ir::AsInt(launch->grid[i]);
    if (blocks) blocks_.push_back({launch->block_vars[i], 0, *blocks});
  }
}

// Takes the conditions of branches that contain the whole body except for bindings.
void LoopTurns::TakeConditions(const Stmt& body) {
  if (const auto* branch = body.as<ir::IfNode>()) {
    if (branch->else_case.defined()) return;
    conditions_.push_back(ir::Substitute(branch->condition, names_));
    return TakeConditions(branch->then_case);
  }
  const auto* seq = body.as<ir::SeqNode>();
  if (seq == nullptr) return;
  Stmt only;
  for (const Stmt& s : seq->stmts) {
    if (s->kind == ir::StmtKind::kBind) continue;
    if (only.defined()) return;
    only = s;
  }
  if (only.defined()) TakeConditions(only);
}

MovingBox LoopTurns::Expanded(const MovingBox& box) const {
  Array<Expr> corner;
  for (const Expr& at : box.corner) corner.push_back(ir::Substitute(at, names_));
  return {corner, box.extents};
}

std::optional<MovingBox> LoopTurns::Around(const std::vector<MovingBox>& boxes) const {
  arith::Analyzer analyzer;
  MovingBox around = Expanded(boxes.front());
  for (size_t i = 1; i < boxes.size(); ++i) {
    MovingBox box = Expanded(boxes[i]);
    if (box.corner.size() != around.corner.size()) return std::nullopt;
    for (size_t d = 0; d < box.corner.size(); ++d) {
      auto n = static_cast<int64_t>(d);
      Expr at = box.corner[n];
      auto shift = ir::AsInt(analyzer.Simplify(at - around.corner[n]));
      if (!shift) return std::nullopt;
      int64_t first = std::min<int64_t>(*shift, 0);
      int64_t end = std::max(*shift + box.extents[n], around.extents[n]);
      if (first < 0) around.corner.Set(n, at);
      around.extents.Set(n, end - first);
    }
  }
  return around;
}

bool LoopTurns::ArePromised(const ir::Buffer& tensor) const {
  return std::any_of(promises_.begin(), promises_.end(), [&](const DisjointStores& promise) {
    return promise.tensor == std::string(tensor->name);
  });
}

bool LoopTurns::MayMeet(const arith::MovingRange& earlier, const arith::MovingRange& later,
                        int64_t distance, int64_t most) const {
  if (!var_.defined()) return true;
  constexpr int64_t kUnknown = std::numeric_limits<int32_t>::max();
  arith::Turns turns = turns_.var.defined() ? turns_ : arith::Turns{var_, 0, kUnknown};
  return arith::MayMeet(earlier, later, turns, distance, most);
}

bool LoopTurns::AreApart(const std::vector<MovingBox>& boxes) const {
  if (!turns_.var.defined()) return false;
  auto around = Around(boxes);
  if (!around) return false;
  for (size_t d = 0; d < around->corner.size(); ++d) {
    const Expr& at = around->corner[static_cast<int64_t>(d)];
    bool fixed = true;  // all but the loop's own variable
    ir::WalkExprs(at, [&](const Expr& e) {
      fixed = fixed && inside_.count(e.get()) == 0;
      return fixed;
    });
    if (fixed && arith::AreApart(at, turns_, around->extents[static_cast<int64_t>(d)])) return true;
  }
  return arith::AreBoxesApart(*around, turns_, blocks_, conditions_);
}

}  // namespace tilelang::analysis
