#include "transform/version_launches.h"

#include <tvm/ffi/cast.h>

#include <string>

#include "analysis/scoped_mutator.h"
#include "ir/fresh_copy.h"
#include "ir/remark.h"
#include "op/effect.h"
#include "transform/plain_gemm.h"
#include "transform/row_lengths.h"

namespace tilelang::transform {

using ir::Expr;
using ir::Stmt;

namespace {

// A copy of a launch of its own blocks and threads, of no blocks where the condition does not hold.
Stmt Where(const Expr& condition, const ir::KernelLaunchNode* op) {
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
  Stmt body =
      op::Sequence({ir::Assume(condition, op->span),
                    ir::Assume(blocks[0] < ir::CastTo(blocks[0].dtype(), op->grid[0]), op->span),
                    copy.MutateStmt(op->body)},
                   op->span);
  return ir::KernelLaunch(blocks, grid, threads, op->threads, op->attrs, body, op->span);
}

class LaunchVersioner : public analysis::ScopedMutator {
 public:
  explicit LaunchVersioner(const ir::Func& func) { analyzer_.BindParams(func->params); }

  using ScopedMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    arith::Analyzer::Scope scope(&analyzer_);
    bool clusters = op->attrs.count("cluster_dims") != 0;
    if (clusters || FindPlainGemm(op).loop == nullptr) return self;
    auto rows = RowsOfUnknownLength(op, &analyzer_);
    if (!rows) return self;
    Remark(op->span, "copy",
           "T.Kernel: rows of " + rows->tensors + " can be copied by vectors where " + rows->text +
               ", and element by element elsewhere: there are two kernels, of which each launch "
               "chooses one. T.assume says that one is enough; the pass option "
               "tl.disable_launch_versions leaves the one for all sizes");
    return ir::Seq({Where(rows->whole, op), Where(ir::Not(rows->whole), op)}, op->span);
  }
};

}  // namespace

ir::Func VersionLaunches(const ir::Func& func) {
  return func.WithBody(LaunchVersioner(func).MutateStmt(func->body));
}

}  // namespace tilelang::transform
