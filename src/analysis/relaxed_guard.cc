#include "analysis/relaxed_guard.h"

#include "arith/analyzer.h"
#include "ir/visitor.h"

namespace tilelang::analysis {

using ir::BinaryOp;
using ir::Expr;

namespace {

// Returns e for which `condition` is e < 0 or e <= 0, as `strict` says; null if it is neither.
Expr SmallSide(const Expr& condition, bool negated, bool* strict) {
  if (const auto* unary = condition.as<ir::UnaryNode>()) {
    bool is_not = static_cast<ir::UnaryOp>(unary->op) == ir::UnaryOp::kNot;
    return is_not ? SmallSide(unary->a, !negated, strict) : Expr();
  }
  const auto* op = condition.as<ir::BinaryNode>();
  if (op == nullptr || !ir::IsIntegral(op->a.dtype())) return Expr();
  bool below = op->Op() == BinaryOp::kLt || op->Op() == BinaryOp::kLe;
  if (!below && op->Op() != BinaryOp::kGt && op->Op() != BinaryOp::kGe) return Expr();
  *strict = (op->Op() == BinaryOp::kLt || op->Op() == BinaryOp::kGt) != negated;
  return below != negated ? op->a - op->b : op->b - op->a;
}

}  // namespace

Expr RelaxedGuard(const Expr& guard, const std::vector<AccessContext::Range>& ranges) {
  bool strict = false;
  Expr side = SmallSide(guard, false, &strict);
  if (!side.defined()) return Expr();
  arith::Analyzer analyzer;
  for (const auto& [var, min, extent] : ranges) {
    if (!ir::UsesVar(side, var)) continue;
    auto stride = analyzer.StrideOf(side, var);
    if (!stride) return Expr();
    int64_t least = *stride > 0 ? min : min + extent - 1;
    side = ir::Substitute(side, {{var, ir::Const(var.dtype(), least)}});
  }
  Expr zero = ir::Const(side.dtype(), 0);
  return strict ? side < zero : side <= zero;
}

}  // namespace tilelang::analysis
