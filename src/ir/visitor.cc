#include "ir/visitor.h"

#include "ir/async.h"
#include "ir/error.h"

namespace tilelang::ir {

void ExprVisitor::VisitExpr(const Expr& e) {
  switch (e->kind) {
#define TL_DISPATCH(Name) \
  case ExprKind::k##Name: \
    return Visit(static_cast<const Name##Node*>(e.get()));
    TL_EXPR_KINDS(TL_DISPATCH)
#undef TL_DISPATCH
  }
}

void ExprVisitor::VisitExprs(const Array<Expr>& exprs) {
  for (const Expr& e : exprs) VisitExpr(e);
}

void ExprVisitor::Visit(const IntImmNode* op) {}
void ExprVisitor::Visit(const FloatImmNode* op) {}
void ExprVisitor::Visit(const StringImmNode* op) {}
void ExprVisitor::Visit(const VarNode* op) {}
void ExprVisitor::Visit(const BinaryNode* op) {
  VisitExpr(op->a);
  VisitExpr(op->b);
}
void ExprVisitor::Visit(const UnaryNode* op) { VisitExpr(op->a); }
void ExprVisitor::Visit(const SelectNode* op) {
  VisitExpr(op->condition);
  VisitExpr(op->true_value);
  VisitExpr(op->false_value);
}
void ExprVisitor::Visit(const CastNode* op) { VisitExpr(op->value); }
void ExprVisitor::Visit(const LoadNode* op) {
  VisitBuffer(op->buffer);
  VisitExprs(op->indices);
}
void ExprVisitor::Visit(const CallNode* op) { VisitExprs(op->args); }

void StmtVisitor::VisitStmt(const Stmt& s) {
  switch (s->kind) {
#define TL_DISPATCH(Name) \
  case StmtKind::k##Name: \
    return Visit(static_cast<const Name##Node*>(s.get()));
    TL_STMT_KINDS(TL_DISPATCH)
#undef TL_DISPATCH
  }
}

void StmtVisitor::VisitRegion(const Region& region) {
  VisitBuffer(region->buffer);
  VisitExprs(region->mins);
  VisitExprs(region->extents);
}

void StmtVisitor::Visit(const StoreNode* op) {
  VisitBuffer(op->buffer);
  VisitExprs(op->indices);
  VisitExpr(op->value);
}
void StmtVisitor::Visit(const EvaluateNode* op) { VisitExpr(op->value); }
void StmtVisitor::Visit(const BindNode* op) { VisitExpr(op->value); }
void StmtVisitor::Visit(const SeqNode* op) {
  for (const Stmt& s : op->stmts) VisitStmt(s);
}
void StmtVisitor::Visit(const IfNode* op) {
  VisitExpr(op->condition);
  VisitStmt(op->then_case);
  if (op->else_case.defined()) VisitStmt(op->else_case);
}
void StmtVisitor::Visit(const ForNode* op) {
  VisitExpr(op->min);
  VisitExpr(op->extent);
  VisitStmt(op->body);
}
void StmtVisitor::Visit(const WhileNode* op) {
  VisitExpr(op->condition);
  VisitStmt(op->body);
}
void StmtVisitor::Visit(const BreakNode* op) {}
void StmtVisitor::Visit(const ContinueNode* op) {}
void StmtVisitor::Visit(const AllocNode* op) { VisitBuffer(op->buffer); }
void StmtVisitor::Visit(const AssumeNode* op) { VisitExpr(op->condition); }
void StmtVisitor::Visit(const AssertNode* op) { VisitExpr(op->condition); }
void StmtVisitor::Visit(const KernelLaunchNode* op) {
  VisitExprs(op->grid);
  VisitExprs(op->threads);
  VisitStmt(op->body);
}
void StmtVisitor::Visit(const IssueNode* op) {
  VisitStmt(op->body);
  for (const Buffer& buffer : op->completion->Buffers()) VisitBuffer(buffer);
}
void StmtVisitor::Visit(const WaitNode* op) {
  for (const Buffer& buffer : op->completion->Buffers()) VisitBuffer(buffer);
}
void StmtVisitor::Visit(const ArriveNode* op) {
  VisitExpr(op->mbar);
  if (op->bytes.defined()) VisitExpr(op->bytes);
  if (op->block.defined()) VisitExpr(op->block);
}
void StmtVisitor::Visit(const WaitParityNode* op) {
  VisitExpr(op->mbar);
  VisitExpr(op->parity);
}
void StmtVisitor::Visit(const FenceNode* op) {}
void StmtVisitor::Visit(const BarrierNode* op) {
  for (const Expr& operand : {op->number, op->count, op->mask}) {
    if (operand.defined()) VisitExpr(operand);
  }
}
void StmtVisitor::Visit(const TmemAllocNode* op) {
  VisitExpr(op->address);
  VisitExpr(op->columns);
}
void StmtVisitor::Visit(const CommitGroupNode* op) {}
void StmtVisitor::Visit(const WaitGroupNode* op) {}
void StmtVisitor::Visit(const MbarrierInitNode* op) {
  VisitExpr(op->mbar);
  VisitExpr(op->count);
}
void StmtVisitor::Visit(const GridDependencyNode* op) {}
void StmtVisitor::Visit(const CopyNode* op) {
  VisitRegion(op->src);
  VisitRegion(op->dst);
  if (op->mbar.defined()) VisitExpr(op->mbar);
  if (op->block.defined()) VisitExpr(op->block);
  if (op->safe_value.defined()) VisitExpr(op->safe_value);
  for (const Expr& row : op->rows) VisitExpr(row);
}
void StmtVisitor::Visit(const FillNode* op) {
  VisitRegion(op->dst);
  VisitExpr(op->value);
}
void StmtVisitor::Visit(const ReduceNode* op) {
  VisitRegion(op->src);
  VisitRegion(op->dst);
}
void StmtVisitor::Visit(const ParallelForNode* op) {
  VisitExprs(op->extents);
  VisitStmt(op->body);
}
void StmtVisitor::Visit(const GemmNode* op) {
  for (const GemmOperand& operand : op->operands) VisitRegion(operand->region);
  VisitExpr(op->clear_accum);
  if (op->mbar.defined()) VisitExpr(op->mbar);
  if (op->k_start.defined()) VisitExpr(op->k_start);
}

namespace {

class Walker : public StmtVisitor {
 public:
  std::function<bool(const Expr&)> on_expr;
  std::function<bool(const Stmt&)> on_stmt;
  std::function<void(const Buffer&)> on_buffer;

  void VisitExpr(const Expr& e) override {
    if (on_expr && !on_expr(e)) return;
    ExprVisitor::VisitExpr(e);
  }
  void VisitStmt(const Stmt& s) override {
    if (on_stmt && !on_stmt(s)) return;
    StmtVisitor::VisitStmt(s);
  }
  void VisitBuffer(const Buffer& buffer) override {
    if (on_buffer) on_buffer(buffer);
  }
};

}  // namespace

void WalkExprs(const Expr& e, const std::function<bool(const Expr&)>& fn) {
  Walker walker;
  walker.on_expr = fn;
  walker.VisitExpr(e);
}

void WalkExprs(const Stmt& s, const std::function<bool(const Expr&)>& fn) {
  Walker walker;
  walker.on_expr = fn;
  walker.VisitStmt(s);
}

void WalkStmts(const Stmt& s, const std::function<bool(const Stmt&)>& fn) {
  Walker walker;
  walker.on_stmt = fn;
  walker.VisitStmt(s);
}

bool HasExpr(const Expr& e, const std::function<bool(const Expr&)>& test) {
  bool found = false;
  WalkExprs(e, [&](const Expr& part) { return !(found = found || test(part)); });
  return found;
}

bool HasExpr(const Stmt& s, const std::function<bool(const Expr&)>& test) {
  bool found = false;
  WalkExprs(s, [&](const Expr& part) { return !(found = found || test(part)); });
  return found;
}

bool HasStmt(const Stmt& s, const std::function<bool(const Stmt&)>& test) {
  bool found = false;
  WalkStmts(s, [&](const Stmt& part) { return !(found = found || test(part)); });
  return found;
}

bool HasCall(const Stmt& s, const std::function<bool(const CallNode*)>& test) {
  return HasExpr(s, [&](const Expr& part) {
    const auto* call = part.as<CallNode>();
    return call != nullptr && test(call);
  });
}

bool HasCall(const Stmt& s, Builtin builtin) {
  return HasCall(s, [&](const CallNode* call) { return call->Is(builtin); });
}

bool UsesVar(const Expr& e, const Var& var) {
  return HasExpr(e, [&](const Expr& part) { return part.same_as(var); });
}

bool HasLoad(const Expr& e) {
  return HasExpr(e, [](const Expr& part) { return part->kind == ExprKind::kLoad; });
}

bool UsesBuffer(const Stmt& s, const Buffer& buffer) {
  bool found = false;
  Walker walker;
  walker.on_buffer = [&](const Buffer& b) { found = found || b.same_as(buffer); };
  walker.VisitStmt(s);
  return found;
}

bool MayLeaveLoop(const Stmt& s) {
  bool found = false;
  WalkStmts(s, [&](const Stmt& inner) {
    found = found || inner->kind == StmtKind::kBreak || inner->kind == StmtKind::kContinue;
    return !found && inner->kind != StmtKind::kFor && inner->kind != StmtKind::kWhile;
  });
  return found;
}

}  // namespace tilelang::ir
