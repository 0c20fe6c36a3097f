#include "op/ragged.h"

#include <tvm/ffi/cast.h>

#include <functional>

#include "ir/arithmetic.h"
#include "ir/effects.h"
#include "ir/visitor.h"

namespace tilelang::op {

using ir::BinaryOp;

namespace {

bool StoresToShared(const ir::ParallelForNode* loop) {
  return ir::HasStmt(loop->body, [&](const Stmt& s) {
    const auto* store = s.as<ir::StoreNode>();
    return store != nullptr && store->buffer.IsShared();
  });
}

// Returns whether the expression uses a name that the body of the loop binds.
bool UsesNameOfBody(const Expr& e, const ir::ParallelForNode* loop) {
  return ir::HasStmt(loop->body, [&](const Stmt& s) {
    const auto* bind = s.as<ir::BindNode>();
    return bind != nullptr && ir::UsesVar(e, bind->var);
  });
}

bool TouchesTensors(const Stmt& s) {
  bool touches = false;
  ir::WalkEffects(s, [&](const ir::Effect& effect) { touches |= effect.buffer.IsGlobal(); });
  return touches;
}

}  // namespace

std::optional<RaggedCondition> AsRagged(const Expr& condition, const ir::ParallelForNode* loop,
                                        Context* ctx) {
  // Threads would decide differently about the parts of a group, and then cannot wait for each
  // other.
  if (StoresToShared(loop)) return std::nullopt;
  const auto* op = condition.as<ir::BinaryNode>();
  if (op == nullptr || !ir::IsIntegral(op->a.dtype()) || ir::IsBool(op->a.dtype())) {
    return std::nullopt;
  }
  bool below = op->Op() == BinaryOp::kLt || op->Op() == BinaryOp::kLe;
  bool above = op->Op() == BinaryOp::kGt || op->Op() == BinaryOp::kGe;
  if (!(below || above) || !ir::IsArithmetic(condition) || UsesNameOfBody(condition, loop)) {
    return std::nullopt;
  }
  // Returns how much a - b grows with a variable.
  auto growth = [&](const Var& var) -> std::optional<int64_t> {
    auto a = ctx->analyzer->StrideOf(op->a, var);
    auto b = ctx->analyzer->StrideOf(op->b, var);
    return a && b ? std::optional(*a - *b) : std::nullopt;
  };
  auto of_group = growth(loop->vars.back());
  if (!of_group) return std::nullopt;
  RaggedCondition ragged{condition, below == (*of_group > 0)};
  Map<Var, Expr> worst;
  for (size_t d = 0; d < loop->vars.size(); ++d) {
    const Var& var = loop->vars[d];
    auto step = growth(var);
    if (!step) return ragged;
    Expr first = ir::Const(var.dtype(), 0);
    bool last = below == (*step > 0);
    worst.Set(var, last ? loop->extents[d] - ir::Const(var.dtype(), 1) : first);
  }
  ragged.everywhere = ir::Substitute(condition, worst);
  return ragged;
}

std::vector<RaggedCondition> BoundsOf(const ir::ParallelForNode* loop, Context* ctx) {
  std::vector<RaggedCondition> bounds;
  // Atomic operations of many elements at a time would take more registers than a thread has.
  bool calls =
      ir::HasStmt(loop->body, [](const Stmt& s) { return s->kind == ir::StmtKind::kEvaluate; });
  if (calls) return bounds;
  std::function<void(const Expr&)> add = [&](const Expr& condition) {
    const auto* op = condition.as<ir::BinaryNode>();
    if (op != nullptr && op->Op() == BinaryOp::kAnd) {
      add(op->a);
      add(op->b);
      return;
    }
    auto bound = AsRagged(condition, loop, ctx);
    if (bound && bound->everywhere.defined()) bounds.push_back(*bound);
  };
  ir::WalkExprs(loop->body, [&](const Expr& e) {
    const auto* select = e.as<ir::SelectNode>();
    const auto* load = select == nullptr ? nullptr : select->true_value.as<ir::LoadNode>();
    if (load != nullptr && load->buffer.IsGlobal()) add(select->condition);
    return true;
  });
  ir::WalkStmts(loop->body, [&](const Stmt& s) {
    const auto* branch = s.as<ir::IfNode>();
    if (branch != nullptr && TouchesTensors(branch->then_case)) add(branch->condition);
    return true;
  });
  return bounds;
}

}  // namespace tilelang::op
