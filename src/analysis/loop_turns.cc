#include "analysis/loop_turns.h"

#include "ir/visitor.h"

namespace tilelang::analysis {

using ir::Expr;
using ir::Stmt;

LoopTurns::LoopTurns(const Stmt& loop) {
  const auto* op = loop.as<ir::ForNode>();
  auto min = op == nullptr ? std::nullopt : ir::AsInt(op->min);
  auto extent = op == nullptr ? std::nullopt : ir::AsInt(op->extent);
  if (!min || !extent) return;
  turns_ = {op->var, *min, *extent};
  ir::WalkStmts(op->body, [&](const Stmt& s) {
    if (const auto* inner = s.as<ir::ForNode>()) inside_.insert(inner->var.get());
    if (const auto* bind = s.as<ir::BindNode>()) inside_.insert(bind->var.get());
    if (const auto* parallel = s.as<ir::ParallelForNode>()) {
      for (const ir::Var& var : parallel->vars) inside_.insert(var.get());
    }
    return true;
  });
}

bool LoopTurns::AreApart(const ir::Array<Expr>& corner, const ir::Array<int64_t>& extents) const {
  if (!turns_.var.defined()) return false;
  for (size_t d = 0; d < corner.size(); ++d) {
    bool fixed = true;  // all but the loop's own variable
    ir::WalkExprs(corner[d], [&](const Expr& e) {
      fixed = fixed && inside_.count(e.get()) == 0;
      return fixed;
    });
    if (fixed && arith::AreApart(corner[d], turns_, extents[d])) return true;
  }
  return false;
}

}  // namespace tilelang::analysis
