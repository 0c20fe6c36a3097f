#include "transform/launch_condition.h"

#include <vector>

#include "ir/fresh_copy.h"
#include "op/effect.h"

namespace tilelang::transform {

using ir::Expr;
using ir::Stmt;

namespace {

// The node of a condition's extent; null for another one.
const ir::SelectNode* Conditional(const Expr& extent) {
  const auto* select = extent.as<ir::SelectNode>();
  return select != nullptr && ir::IsConst(select->false_value, 0) ? select : nullptr;
}

}  // namespace

ir::KernelLaunch LaunchWhere(const Expr& condition, const ir::KernelLaunchNode* op) {
  ir::FreshCopy copy;
  auto renew = [&](const ir::Array<ir::Var>& vars) {
    ir::Array<ir::Var> fresh;
    for (const ir::Var& var : vars) {
      fresh.push_back(ir::Var(var->name, var.dtype(), var->span));
      copy.Set(var, fresh.back());
    }
    return fresh;
  };
  ir::Array<ir::Var> blocks = renew(op->block_vars);
  ir::Array<ir::Var> threads = renew(op->thread_vars);
  ir::Array<Expr> grid = op->grid;
  grid.Set(0, ir::Select(condition, grid[0], ir::Const(grid[0].dtype(), 0)));
  Expr extent = ir::CastTo(blocks[0].dtype(), ExtentInside(op->grid[0]));
  std::vector<Stmt> stmts = {ir::Assume(condition, op->span),
                             ir::Assume(blocks[0] < extent, op->span)};
  Stmt body = copy.MutateStmt(op->body);
  if (const auto* seq = body.as<ir::SeqNode>()) {
    stmts.insert(stmts.end(), seq->stmts.begin(), seq->stmts.end());
  } else {
    stmts.push_back(body);
  }
  return ir::KernelLaunch(blocks, grid, threads, op->threads, op->attrs,
                          op::Sequence(stmts, op->span), op->span);
}

Expr ExtentInside(const Expr& extent) {
  const ir::SelectNode* select = Conditional(extent);
  return select == nullptr ? extent : ExtentInside(select->true_value);
}

Expr EmptyLike(const Expr& extent, const Expr& inside) {
  const ir::SelectNode* select = Conditional(extent);
  if (select == nullptr) return inside;
  return ir::Select(select->condition, EmptyLike(select->true_value, inside), select->false_value);
}

}  // namespace tilelang::transform
