#include "analysis/scoped_mutator.h"

namespace tilelang::analysis {

using arith::Analyzer;
using ir::Expr;
using ir::Stmt;

Stmt ScopedMutator::Rewrite(const ir::SeqNode* op) {
  Analyzer::Scope scope(&analyzer_);
  return StmtMutator::Rewrite(op);
}

Stmt ScopedMutator::Rewrite(const ir::BindNode* op) {
  Stmt result = StmtMutator::Rewrite(op);
  if (ir::IsIntegral(op->var.dtype())) {
    analyzer_.Bind(op->var, static_cast<const ir::BindNode*>(result.get())->value);
  }
  return result;
}

Stmt ScopedMutator::Rewrite(const ir::AssumeNode* op) {
  analyzer_.Assume(op->condition);
  return StmtMutator::Rewrite(op);
}

Stmt ScopedMutator::Rewrite(const ir::IfNode* op) {
  Expr condition = Mutate(op->condition);
  Stmt then_case;
  Stmt else_case;
  {
    Analyzer::Scope scope(&analyzer_, condition);
    then_case = MutateStmt(op->then_case);
  }
  if (op->else_case.defined()) {
    Analyzer::Scope scope(&analyzer_, ir::Not(condition));
    else_case = MutateStmt(op->else_case);
  }
  return ir::If(condition, then_case, else_case, op->span);
}

Stmt ScopedMutator::Rewrite(const ir::ForNode* op) {
  Analyzer::Scope scope(&analyzer_);
  analyzer_.Bind(op->var, op->min, op->extent);
  return StmtMutator::Rewrite(op);
}

Stmt ScopedMutator::Rewrite(const ir::ParallelForNode* op) {
  Analyzer::Scope scope(&analyzer_);
  for (size_t i = 0; i < op->vars.size(); ++i) {
    analyzer_.Bind(op->vars[i], ir::Const(op->vars[i].dtype(), 0), op->extents[i]);
  }
  return StmtMutator::Rewrite(op);
}

Stmt ScopedMutator::Rewrite(const ir::WhileNode* op) {
  Analyzer::Scope scope(&analyzer_, op->condition);
  return StmtMutator::Rewrite(op);
}

Stmt ScopedMutator::Rewrite(const ir::KernelLaunchNode* op) {
  Analyzer::Scope scope(&analyzer_);
  analyzer_.BindLaunch(op);
  return StmtMutator::Rewrite(op);
}

Expr ScopedMutator::Rewrite(const ir::SelectNode* op) {
  Expr condition = Mutate(op->condition);
  Expr true_value;
  Expr false_value;
  {
    Analyzer::Scope scope(&analyzer_, condition);
    true_value = Mutate(op->true_value);
  }
  {
    Analyzer::Scope scope(&analyzer_, ir::Not(condition));
    false_value = Mutate(op->false_value);
  }
  if (auto value = ir::AsInt(condition)) return *value != 0 ? true_value : false_value;
  return ir::Select(condition, true_value, false_value, op->span);
}

}  // namespace tilelang::analysis
