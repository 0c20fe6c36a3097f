#include "arith/widen.h"

namespace tilelang::arith {

using ir::BinaryOp;
using ir::Expr;
using ir::ExprKind;

namespace {

bool IsExact(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
    case BinaryOp::kSub:
    case BinaryOp::kMul:
    case BinaryOp::kFloorDiv:
    case BinaryOp::kFloorMod:
    case BinaryOp::kMin:
    case BinaryOp::kMax:
    case BinaryOp::kShr:
      return true;
    default:
      return false;
  }
}

}  // namespace

Expr Widen(const Expr& e, const std::function<Expr(const Expr&)>& leaf) {
  bool is_number = ir::IsInt(e.dtype()) && e.dtype().lanes == 1;
  if (is_number) {
    if (auto value = ir::AsInt(e)) return ir::Const(ir::dtypes::kInt64, *value);
    if (const auto* op = e.as<ir::BinaryNode>(); op != nullptr && IsExact(op->Op())) {
      return ir::MakeBinary(op->Op(), Widen(op->a, leaf), Widen(op->b, leaf), op->span);
    }
    const auto* negation = e.as<ir::UnaryNode>();
    if (negation != nullptr && negation->Op() == ir::UnaryOp::kNeg) {
      return ir::Const(ir::dtypes::kInt64, int64_t{0}) - Widen(negation->a, leaf);
    }
    if (const auto* op = e.as<ir::SelectNode>()) {
      return ir::Select(op->condition, Widen(op->true_value, leaf), Widen(op->false_value, leaf),
                        op->span);
    }
    const auto* cast = e.as<ir::CastNode>();
    bool keeps_value = cast != nullptr && ir::IsInt(cast->value.dtype()) &&
                       cast->value.dtype().bits <= cast->dtype.bits;
    if (keeps_value) return Widen(cast->value, leaf);
  }
  return ir::CastTo(ir::dtypes::kInt64, leaf ? leaf(e) : e);
}

}  // namespace tilelang::arith
