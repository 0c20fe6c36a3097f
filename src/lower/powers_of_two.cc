#include "lower/powers_of_two.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "ir/build.h"

namespace tilelang::lower {

using ir::Expr;

namespace {

Expr Folded(const Expr& e);

// Returns a factor times log2(e); undefined if it is then above 1: the lowest finite number, as a
// mask, would become infinite, and the difference of two of them no number.
Expr FoldedFactor(const Expr& e) {
  Expr folded = Folded(e);
  const auto* number = folded.defined() ? folded.as<ir::FloatImmNode>() : nullptr;
  return number != nullptr && std::abs(number->value) > 1 ? Expr() : folded;
}

// Returns `e` times log2(e) if this takes no operation more: in sums, differences and products, of
// which each term has a constant. Undefined for others, and where a constant would become infinite:
// the lowest finite number, as a mask, times 0 is 0.
Expr Folded(const Expr& e) {
  if (const auto* number = e.as<ir::FloatImmNode>()) {
    double folded = number->value * std::numbers::log2e;
    bool overflows = std::abs(folded) > std::numeric_limits<float>::max();
    if (overflows && std::isfinite(number->value)) return Expr();
    return ir::FloatImm(number->dtype, folded, number->span);
  }
  const auto* op = e.as<ir::BinaryNode>();
  if (op == nullptr) return Expr();
  bool sum = op->Op() == ir::BinaryOp::kAdd || op->Op() == ir::BinaryOp::kSub;
  if (!sum && op->Op() != ir::BinaryOp::kMul) return Expr();
  Expr a = sum ? Folded(op->a) : FoldedFactor(op->a);
  if (!sum && a.defined()) return ir::MakeBinary(op->Op(), a, op->b, op->span);
  Expr b = sum ? Folded(op->b) : FoldedFactor(op->b);
  if (!b.defined() || (sum && !a.defined())) return Expr();
  return ir::MakeBinary(op->Op(), sum ? a : op->a, b, op->span);
}

}  // namespace

Expr PowerOf(const ir::CallNode* exponential) {
  const Expr& power = exponential->args[0];
  if (exponential->name == "exp2") return power;
  Expr folded = Folded(power);
  Expr log2e = ir::FloatImm(power.dtype(), std::numbers::log2e, power.span());
  return folded.defined() ? folded : ir::MakeBinary(ir::BinaryOp::kMul, power, log2e, power.span());
}

}  // namespace tilelang::lower
