#include "transform/hoist_branches.h"

#include "ir/visitor.h"

namespace tilelang::transform {

using ir::Stmt;

namespace {

// Returns whether an expression has one value in all iterations of a loop that surrounds it.
bool IsInvariant(const ir::Expr& e, const ir::Var& loop_var) {
  return !ir::HasExpr(e, [&](const ir::Expr& part) {
    return part.same_as(loop_var) || part->kind == ir::ExprKind::kLoad ||
           part->kind == ir::ExprKind::kCall;
  });
}

class BranchHoister : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::ForNode* op) override {
    Stmt rewritten = StmtMutator::Rewrite(op);
    const auto* loop = rewritten.as<ir::ForNode>();
    const auto* branch = loop->body.as<ir::IfNode>();
    if (branch == nullptr || branch->else_case.defined() ||
        !IsInvariant(branch->condition, loop->var)) {
      return rewritten;
    }
    Stmt inner = ir::For(loop->var, loop->min, loop->extent, loop->Kind(), branch->then_case,
                         loop->annotations, loop->span);
    return ir::If(branch->condition, inner, Stmt(), branch->span);
  }
};

}  // namespace

ir::Func HoistBranches(const ir::Func& func) {
  return func.WithBody(BranchHoister().MutateStmt(func->body));
}

}  // namespace tilelang::transform
