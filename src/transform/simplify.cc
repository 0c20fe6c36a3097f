#include "transform/simplify.h"

#include <tvm/ffi/cast.h>

#include "arith/analyzer.h"
#include "arith/structural.h"
#include "ir/visitor.h"
#include "transform/remove_unused.h"

namespace tilelang::transform {

using arith::Analyzer;
using ir::Expr;
using ir::Stmt;
using ir::StmtKind;

namespace {

Stmt Empty() { return ir::Seq(ir::Array<Stmt>()); }

bool IsEmpty(const Stmt& s) {
  const auto* seq = s.as<ir::SeqNode>();
  return seq != nullptr && seq->stmts.empty();
}

bool Leaves(const Stmt& s) {
  if (const auto* seq = s.as<ir::SeqNode>())
    return !seq->stmts.empty() && Leaves(seq->stmts.back());
  return s->kind == StmtKind::kBreak || s->kind == StmtKind::kContinue;
}

template <typename NodeT>
Stmt Self(const NodeT* op) {
  return tvm::ffi::GetRef<Stmt>(op);
}

class Simplifier : public ir::StmtMutator {
 public:
  explicit Simplifier(const ir::Func& func) {
    analyzer_.BindParams(func->params);
    ir::WalkStmts(func->body, [&](const Stmt& s) {
      const auto* loop = s.as<ir::ForNode>();
      if (loop != nullptr && loop->Kind() == ir::ForKind::kPipelined) ++pipelined_loops_;
      return true;
    });
  }
  using StmtMutator::Rewrite;

  Expr Mutate(const Expr& e) override {
    return analyzer_.Simplify(replaced_.empty() ? e : ir::Substitute(e, replaced_));
  }

  Stmt Rewrite(const ir::SeqNode* op) override {
    Analyzer::Scope scope(&analyzer_);
    std::vector<Stmt> stmts;
    bool changed = false;
    for (const Stmt& s : op->stmts) {
      Stmt simple = MutateStmt(s);
      changed = changed || !simple.same_as(s) || IsEmpty(simple);
      if (IsEmpty(simple)) continue;
      stmts.push_back(simple);
      AssumeAfter(simple);
      if (Leaves(simple)) break;
    }
    if (!changed && stmts.size() == op->stmts.size() && stmts.size() != 1) return Self(op);
    return ir::MakeSeq(stmts, op->span);
  }

  Stmt Rewrite(const ir::BindNode* op) override {
    Expr value = Mutate(op->value);
    if (value->kind == ir::ExprKind::kVar || value->kind == ir::ExprKind::kIntImm ||
        value->kind == ir::ExprKind::kFloatImm) {
      replaced_.Set(op->var, value);
    }
    analyzer_.Bind(op->var, value);
    return value.same_as(op->value) ? Self(op) : Stmt(ir::Bind(op->var, value, op->span));
  }

  Stmt Rewrite(const ir::EvaluateNode* op) override {
    return arith::IsPure(op->value) ? Empty() : StmtMutator::Rewrite(op);
  }

  Stmt Rewrite(const ir::IfNode* op) override {
    Expr condition = Mutate(op->condition);
    if (auto value = ir::AsInt(condition)) {
      if (*value != 0) return MutateStmt(op->then_case);
      return op->else_case.defined() ? MutateStmt(op->else_case) : Empty();
    }
    Stmt then_case = InScope(condition, op->then_case);
    Stmt else_case = op->else_case;
    if (else_case.defined()) else_case = InScope(ir::Not(condition), else_case);
    if (else_case.defined() && IsEmpty(else_case)) else_case = Stmt();
    if (IsEmpty(then_case)) {
      if (else_case.defined())
        return ir::If(Mutate(ir::Not(condition)), else_case, Stmt(), op->span);
      return arith::IsPure(condition) ? Empty() : Stmt(ir::Evaluate(condition, op->span));
    }
    bool same = condition.same_as(op->condition) && then_case.same_as(op->then_case) &&
                else_case.same_as(op->else_case);
    return same ? Self(op) : Stmt(ir::If(condition, then_case, else_case, op->span));
  }

  Stmt Rewrite(const ir::ForNode* op) override {
    Expr min = Mutate(op->min);
    Expr extent = Mutate(op->extent);
    if (analyzer_.CanProve(extent <= 0)) return Empty();
    // One of several pipelined loops stays a loop until it is scheduled: its loads run ahead in the
    // others.
    bool joined = op->Kind() == ir::ForKind::kPipelined && pipelined_loops_ > 1;
    if (ir::IsConst(extent, 1) && !joined && !ir::MayLeaveLoop(op->body)) {
      return OnlyIteration(op, min);
    }
    Analyzer::Scope scope(&analyzer_);
    analyzer_.Bind(op->var, min, extent);
    Stmt body = MutateStmt(op->body);
    if (IsEmpty(body)) return Empty();
    bool same = min.same_as(op->min) && extent.same_as(op->extent) && body.same_as(op->body);
    if (same) return Self(op);
    return ir::For(op->var, min, extent, op->Kind(), body, op->annotations, op->span);
  }

  Stmt Rewrite(const ir::StoreNode* op) override {
    if (!op->buffer.IsFragment()) return StmtMutator::Rewrite(op);
    // An index that is the variable of a parallel loop is kept, as in loads.
    ir::Array<Expr> indices = op->indices.Map([&](const Expr& index) {
      auto var = index.as<ir::Var>();
      bool stays = var && replaced_.count(*var) == 0;
      return stays ? index : Mutate(index);
    });
    Expr value = Mutate(op->value);
    if (indices.same_as(op->indices) && value.same_as(op->value)) return Self(op);
    return ir::Store(op->buffer, indices, value, op->span);
  }

  Stmt Rewrite(const ir::ParallelForNode* op) override {
    ir::Array<Expr> extents = MutateExprs(op->extents);
    Analyzer::Scope scope(&analyzer_);
    for (size_t i = 0; i < op->vars.size(); ++i) {
      if (analyzer_.CanProve(extents[i] <= 0)) return Empty();
      analyzer_.Bind(op->vars[i], ir::Const(op->vars[i].dtype(), 0), extents[i]);
    }
    Stmt body = MutateStmt(op->body);
    if (IsEmpty(body)) return Empty();
    if (extents.same_as(op->extents) && body.same_as(op->body)) return Self(op);
    return ir::ParallelFor(op->vars, extents, body, op->annotations, op->span);
  }

  Stmt Rewrite(const ir::WhileNode* op) override {
    Expr condition = Mutate(op->condition);
    if (ir::IsConst(condition, 0)) return Empty();
    Stmt body = InScope(condition, op->body);
    if (condition.same_as(op->condition) && body.same_as(op->body)) return Self(op);
    return ir::While(condition, body, op->span);
  }

  Stmt Rewrite(const ir::AssumeNode* op) override {
    Stmt result = StmtMutator::Rewrite(op);
    return ir::IsTrue(result.as<ir::AssumeNode>()->condition) ? Empty() : result;
  }

  Stmt Rewrite(const ir::AssertNode* op) override {
    Stmt result = StmtMutator::Rewrite(op);
    return ir::IsTrue(result.as<ir::AssertNode>()->condition) ? Empty() : result;
  }

  // The host computes the grid, also where it has no blocks: what holds inside of them does not.
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    ir::Array<Expr> grid;
    bool same = true;
    for (const Expr& extent : op->grid) {
      grid.push_back(Mutate(extent));
      same = same && grid.back().same_as(extent);
    }
    Analyzer::Scope scope(&analyzer_);
    analyzer_.BindLaunch(op);
    Stmt body = MutateStmt(op->body);
    if (same && body.same_as(op->body)) return ir::ffi::GetRef<Stmt>(op);
    return ir::KernelLaunch(op->block_vars, grid, op->thread_vars, op->threads, op->attrs, body,
                            op->span);
  }

 private:
  Stmt InScope(const Expr& condition, const Stmt& body) {
    Analyzer::Scope scope(&analyzer_, condition);
    return MutateStmt(body);
  }

  // Adds the facts that hold for the following statements.
  void AssumeAfter(const Stmt& s) {
    if (const auto* assume = s.as<ir::AssumeNode>()) analyzer_.Assume(assume->condition);
    if (const auto* check = s.as<ir::AssertNode>()) analyzer_.Assume(check->condition);
    const auto* branch = s.as<ir::IfNode>();
    if (branch != nullptr && !branch->else_case.defined() && Leaves(branch->then_case)) {
      analyzer_.Assume(ir::Not(branch->condition));
    }
  }

  Stmt OnlyIteration(const ir::ForNode* op, const Expr& min) {
    Analyzer::Scope scope(&analyzer_);
    Stmt bind = Rewrite(ir::Bind(op->var, min, op->span).get());
    Stmt body = MutateStmt(op->body);
    if (IsEmpty(body)) return Empty();
    if (replaced_.count(op->var) != 0) return body;
    return ir::Seq(ir::Array<Stmt>{bind, body}, op->span);
  }

  Analyzer analyzer_;
  ir::Map<ir::Var, Expr> replaced_;
  int64_t pipelined_loops_ = 0;
};

}  // namespace

ir::Func Simplify(const ir::Func& func) {
  Stmt body = RemoveUnused(Simplifier(func).MutateStmt(func->body));
  return body.same_as(func->body) ? func : func.WithBody(body);
}

}  // namespace tilelang::transform
