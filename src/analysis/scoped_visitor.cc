#include "analysis/scoped_visitor.h"

namespace tilelang::analysis {

using arith::Analyzer;

void ScopedVisitor::Under(const ir::Expr& condition, bool holds,
                          const std::function<void()>& visit) {
  Analyzer::Scope scope(&analyzer_, holds ? condition : ir::Not(condition));
  visit();
}

void ScopedVisitor::Visit(const ir::SeqNode* op) {
  Analyzer::Scope scope(&analyzer_);
  StmtVisitor::Visit(op);
}

void ScopedVisitor::Visit(const ir::BindNode* op) {
  StmtVisitor::Visit(op);
  analyzer_.Bind(op->var, op->value);
}

void ScopedVisitor::Visit(const ir::AssumeNode* op) {
  StmtVisitor::Visit(op);
  analyzer_.Assume(op->condition);
}

void ScopedVisitor::Visit(const ir::IfNode* op) {
  VisitExpr(op->condition);
  Under(op->condition, true, [&] { VisitStmt(op->then_case); });
  if (!op->else_case.defined()) return;
  Under(op->condition, false, [&] { VisitStmt(op->else_case); });
}

void ScopedVisitor::Visit(const ir::ForNode* op) {
  VisitExpr(op->min);
  VisitExpr(op->extent);
  Analyzer::Scope scope(&analyzer_);
  analyzer_.Bind(op->var, op->min, op->extent);
  VisitStmt(op->body);
}

void ScopedVisitor::Visit(const ir::ParallelForNode* op) {
  VisitExprs(op->extents);
  Analyzer::Scope scope(&analyzer_);
  for (size_t i = 0; i < op->vars.size(); ++i) {
    analyzer_.Bind(op->vars[i], ir::Const(op->vars[i].dtype(), 0), op->extents[i]);
  }
  VisitStmt(op->body);
}

void ScopedVisitor::Visit(const ir::WhileNode* op) {
  VisitExpr(op->condition);
  Under(op->condition, true, [&] { VisitStmt(op->body); });
}

void ScopedVisitor::Visit(const ir::KernelLaunchNode* op) {
  Analyzer::Scope scope(&analyzer_);
  VisitExprs(op->grid);
  VisitExprs(op->threads);
  analyzer_.BindLaunch(op);
  VisitStmt(op->body);
}

void ScopedVisitor::Visit(const ir::SelectNode* op) {
  VisitExpr(op->condition);
  Under(op->condition, true, [&] { VisitExpr(op->true_value); });
  Under(op->condition, false, [&] { VisitExpr(op->false_value); });
}

void ScopedVisitor::Visit(const ir::BinaryNode* op) {
  bool logic = op->Op() == ir::BinaryOp::kAnd || op->Op() == ir::BinaryOp::kOr;
  if (!logic) return StmtVisitor::Visit(op);
  VisitExpr(op->a);
  Under(op->a, op->Op() == ir::BinaryOp::kAnd, [&] { VisitExpr(op->b); });
}

}  // namespace tilelang::analysis
