#include "transform/launch_condition.h"

#include <vector>

#include "ir/fresh_copy.h"
#include "ir/launch_extent.h"
#include "op/effect.h"

namespace tilelang::transform {

using ir::Expr;
using ir::Stmt;

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
  Expr extent = ir::CastTo(blocks[0].dtype(), ir::ExtentInside(op->grid[0]));
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

}  // namespace tilelang::transform
