#include "op/index_eval.h"

#include "ir/visitor.h"

namespace tilelang::op {

using ir::BinaryOp;
using ir::Expr;
using ir::ExprKind;

IndexFunction::IndexFunction(const Expr& e, const ir::Array<ir::Var>& vars, const Lookup& other) {
  root_ = Build(e, vars, other);
  if (ok_) FindAffineForm(vars.size());
}

int IndexFunction::Emit(Node node) {
  nodes_.push_back(node);
  return static_cast<int>(nodes_.size()) - 1;
}

int IndexFunction::Build(const Expr& e, const ir::Array<ir::Var>& vars, const Lookup& other) {
  switch (e->kind) {
    case ExprKind::kIntImm:
      return Emit({.kind = Node::kConst, .value = *ir::AsInt(e)});
    case ExprKind::kVar: {
      ir::Var var = ir::Any(e).cast<ir::Var>();
      for (size_t i = 0; i < vars.size(); ++i) {
        if (vars[i].same_as(var)) {
          return Emit({.kind = Node::kVar, .value = static_cast<int64_t>(i)});
        }
      }
      std::optional<int64_t> value = other(var);
      ok_ = ok_ && value.has_value();
      return Emit({.kind = Node::kConst, .value = value.value_or(0)});
    }
    case ExprKind::kBinary: {
      const auto* op = static_cast<const ir::BinaryNode*>(e.get());
      if (!ir::IsIntegral(op->a.dtype()) || op->Op() == BinaryOp::kDiv) break;
      int a = Build(op->a, vars, other);
      int b = Build(op->b, vars, other);
      return Emit({.kind = Node::kBinary, .op = op->Op(), .a = a, .b = b});
    }
    case ExprKind::kSelect: {
      const auto* op = static_cast<const ir::SelectNode*>(e.get());
      int a = Build(op->condition, vars, other);
      int b = Build(op->true_value, vars, other);
      int c = Build(op->false_value, vars, other);
      return Emit({.kind = Node::kSelect, .a = a, .b = b, .c = c});
    }
    case ExprKind::kCast: {
      const auto* op = static_cast<const ir::CastNode*>(e.get());
      if (!ir::IsIntegral(op->dtype) || !ir::IsIntegral(op->value.dtype())) break;
      return Build(op->value, vars, other);
    }
    default:
      break;
  }
  ok_ = false;
  return Emit({.kind = Node::kConst});
}

int64_t IndexFunction::Eval(int index, const std::vector<int64_t>& values) const {
  const Node& node = nodes_[index];
  switch (node.kind) {
    case Node::kConst:
      return node.value;
    case Node::kVar:
      return values[node.value];
    case Node::kSelect:
      return Eval(node.a, values) != 0 ? Eval(node.b, values) : Eval(node.c, values);
    case Node::kBinary:
      break;
  }
  // The folding rules of the IR define the semantics of its integers.
  Expr result = ir::MakeBinary(node.op, ir::IntImm(ir::dtypes::kInt64, Eval(node.a, values)),
                               ir::IntImm(ir::dtypes::kInt64, Eval(node.b, values)));
  return ir::AsInt(result).value_or(0);
}

int64_t IndexFunction::operator()(const std::vector<int64_t>& values) const {
  if (!affine_) return Eval(root_, values);
  int64_t result = constant_;
  for (size_t i = 0; i < coefficients_.size(); ++i) result += coefficients_[i] * values[i];
  return result;
}

void IndexFunction::FindAffineForm(size_t num_vars) {
  for (const Node& node : nodes_) {
    if (node.kind == Node::kSelect) return;
    if (node.kind != Node::kBinary) continue;
    bool linear = node.op == BinaryOp::kAdd || node.op == BinaryOp::kSub;
    bool scaled = node.op == BinaryOp::kMul &&
                  (nodes_[node.a].kind == Node::kConst || nodes_[node.b].kind == Node::kConst);
    if (!linear && !scaled) return;
  }
  std::vector<int64_t> point(num_vars, 0);
  constant_ = Eval(root_, point);
  for (size_t i = 0; i < num_vars; ++i) {
    point[i] = 1;
    coefficients_.push_back(Eval(root_, point) - constant_);
    point[i] = 0;
  }
  affine_ = true;
}

bool UsesAny(const Expr& e, const ir::Array<ir::Var>& vars) {
  for (const ir::Var& var : vars) {
    if (ir::UsesVar(e, var)) return true;
  }
  return false;
}

std::optional<VarPlusRest> MatchVarPlusRest(const Expr& e, const ir::Array<ir::Var>& vars) {
  for (size_t i = 0; i < vars.size(); ++i) {
    if (vars[i].same_as(e)) return VarPlusRest{static_cast<int>(i), ir::Const(e.dtype(), 0)};
  }
  const auto* sum = e.as<ir::BinaryNode>();
  if (sum == nullptr) return std::nullopt;
  if (sum->Op() == BinaryOp::kSub && !UsesAny(sum->b, vars)) {
    auto inner = MatchVarPlusRest(sum->a, vars);
    if (inner) inner->rest = inner->rest - sum->b;
    return inner;
  }
  if (sum->Op() != BinaryOp::kAdd) return std::nullopt;
  bool left = UsesAny(sum->a, vars);
  bool right = UsesAny(sum->b, vars);
  if (left == right) return std::nullopt;
  auto inner = MatchVarPlusRest(left ? sum->a : sum->b, vars);
  if (inner) inner->rest = inner->rest + (left ? sum->b : sum->a);
  return inner;
}

}  // namespace tilelang::op
