// Simplification: the normal form where it is cheaper, boolean algebra, decided conditions.
#include <tvm/ffi/cast.h>

#include "arith/cost.h"
#include "arith/knowledge.h"
#include "arith/node.h"
#include "arith/structural.h"
#include "ir/fold.h"
#include "ir/visitor.h"

namespace tilelang::arith {

using ir::BinaryOp;
using ir::Expr;
using ir::ExprKind;

namespace {

bool IsRing(const Expr& e) {
  if (!IsInteger(e)) return false;
  if (e->kind == ExprKind::kUnary) return As<ir::UnaryNode>(e)->Op() == ir::UnaryOp::kNeg;
  if (e->kind != ExprKind::kBinary) return false;
  BinaryOp op = As<ir::BinaryNode>(e)->Op();
  return op == BinaryOp::kAdd || op == BinaryOp::kSub || op == BinaryOp::kMul;
}

Expr Bool(bool value) { return ir::Const(ir::dtypes::kBool, int64_t{value}); }

// Rewrites the direct children of a node.
class ChildRewriter : public ir::ExprMutator {
 public:
  explicit ChildRewriter(const std::function<Expr(const Expr&)>& fn) : fn_(fn) {}
  Expr Mutate(const Expr& e) override {
    if (inside_) return fn_(e);
    inside_ = true;
    return ExprMutator::Mutate(e);
  }

 private:
  const std::function<Expr(const Expr&)>& fn_;
  bool inside_ = false;
};

// Writes `difference op 0` as `left op right`, divided by the common factor: positive terms left,
// negative ones right, no negative constant beside terms.
void SplitSides(const Poly& difference, BinaryOp op, Poly* left, Poly* right) {
  int64_t g = difference.CoeffGcd();
  // g * t + base < 0 exactly if t + base // g < 0; g * t + base <= 0 if t + ceil(base / g) <= 0.
  bool down = op == BinaryOp::kLt || op == BinaryOp::kGe;
  int64_t base = down ? ir::FloorDivInt(difference.base, g) : -ir::FloorDivInt(-difference.base, g);
  for (const Poly::Term& t : difference.terms) {
    Poly* side = t.coeff > 0 ? left : right;
    side->terms.push_back({t.atom, std::abs(t.coeff / g)});
  }
  bool base_left = left->terms.empty() || (base > 0 && !right->terms.empty());
  (base_left ? left : right)->base = base_left ? base : -base;
}

// Gives an expression without a span the span of the expression that it replaces.
Expr WithSpan(const Expr& e, const ir::Span& span) {
  if (e.span().defined() || !span.defined()) return e;
  const auto* op = e.as<ir::BinaryNode>();
  return op != nullptr ? Expr(ir::Binary(op->Op(), op->a, op->b, span)) : e;
}

}  // namespace

bool Knowledge::IsImpure(const Expr& e) {
  if (e->kind == ExprKind::kIntImm || e->kind == ExprKind::kVar) return false;
  auto it = impure_.find(e.get());
  if (it != impure_.end()) return it->second.second;
  bool impure = e->kind == ExprKind::kCall && !IsPureCall(As<ir::CallNode>(e));
  std::function<Expr(const Expr&)> look = [&](const Expr& child) {
    impure = impure || IsImpure(child);
    return child;
  };
  ChildRewriter(look).Mutate(e);
  impure_.emplace(e.get(), std::pair(e, impure));
  return impure;
}

Expr Knowledge::SimplifyChildren(const Expr& e) {
  std::function<Expr(const Expr&)> fn = [this](const Expr& child) { return Simplify(child); };
  return ChildRewriter(fn).Mutate(e);
}

Expr Knowledge::Simplify(const Expr& e) {
  if (e->kind == ExprKind::kIntImm || e->kind == ExprKind::kFloatImm) return e;
  auto& memo = layers_.back().simplified;
  auto it = memo.find(e.get());
  if (it != memo.end()) return it->second.second;
  Expr simple = SimplifyNode(e);
  if (SameStructure(simple, e)) simple = e;
  layers_.back().simplified.emplace(e.get(), std::pair(e, simple));
  return simple;
}

Expr Knowledge::SimplifyNode(const Expr& e) {
  if (IsImpure(e)) return SimplifyChildren(e);
  if (IsInteger(e)) return SimplifyInteger(e);
  if (ir::IsBool(e.dtype())) {
    if (auto known = KnownCondition(e)) return Bool(*known);
    if (const auto* op = e.as<ir::BinaryNode>()) {
      if (op->Op() == BinaryOp::kAnd || op->Op() == BinaryOp::kOr) return SimplifyLogic(op, e);
      if (ir::IsComparison(op->Op()) && IsInteger(op->a)) return SimplifyComparison(op, e);
    }
    if (const auto* op = e.as<ir::UnaryNode>()) return SimplifyNot(op, e);
  }
  if (e->kind == ExprKind::kSelect) return SimplifySelect(As<ir::SelectNode>(e), e);
  const auto* load = e.as<ir::LoadNode>();
  if (load != nullptr && load->buffer.IsFragment()) return SimplifyFragmentLoad(e);
  return SimplifyChildren(e);
}

Expr Knowledge::SimplifyFragmentLoad(const Expr& e) {
  // An index that is the variable of a parallel loop stays it, whatever value a condition leaves:
  // which thread holds the element follows from the variable.
  std::function<Expr(const Expr&)> fn = [this](const Expr& child) {
    return child->kind == ExprKind::kVar ? child : Simplify(child);
  };
  return ChildRewriter(fn).Mutate(e);
}

std::optional<bool> Knowledge::KnownCondition(const Expr& e) {
  for (const auto& [condition, holds] : conditions_) {
    if (SameStructure(condition, e)) return holds;
  }
  return std::nullopt;
}

Expr Knowledge::RingForm(const Expr& e) {
  if (!IsRing(e) || IsImpure(e)) return Simplify(e);
  auto it = layers_.back().ring_forms.find(e.get());
  if (it != layers_.back().ring_forms.end()) return it->second.second;
  std::function<Expr(const Expr&)> fn = [this](const Expr& child) { return RingForm(child); };
  Expr form = ChildRewriter(fn).Mutate(e);
  layers_.back().ring_forms.emplace(e.get(), std::pair(e, form));
  return form;
}

Expr Knowledge::SimplifyInteger(const Expr& e) {
  try {
    Poly p = PolyOf(e);
    if (p.IsConstant()) return ir::Const(e.dtype(), p.base);
    Expr kept = e;
    if (e->kind == ExprKind::kSelect) {
      kept = SimplifySelect(As<ir::SelectNode>(e), e);
    } else if (e->kind != ExprKind::kVar) {
      kept = IsRing(e) ? RingForm(e) : SimplifyChildren(e);
    }
    Expr built = Build(p, e.dtype());
    return Cost(built) < Cost(kept) ? WithSpan(built, e.span()) : kept;
  } catch (const CoefficientOverflow&) {
    return SimplifyChildren(e);
  }
}

Expr Knowledge::SimplifyLogic(const ir::BinaryNode* op, const Expr& e) {
  bool conjunction = op->Op() == BinaryOp::kAnd;
  Expr a = Simplify(op->a);
  if (auto value = ir::AsInt(a)) {
    return (*value != 0) == conjunction ? Simplify(op->b) : Bool(!conjunction);
  }
  // The right side is evaluated only where the left is true (and), or false (or).
  Expr b{nullptr};
  {
    KnowledgeScope scope(this);
    Assume(a, conjunction, true);
    b = Simplify(op->b);
  }
  if (auto value = ir::AsInt(b)) return (*value != 0) == conjunction ? a : Bool(!conjunction);
  {
    KnowledgeScope scope(this);
    Assume(b, conjunction, true);
    if (auto value = ir::AsInt(Simplify(a))) {
      return (*value != 0) == conjunction ? b : Bool(!conjunction);
    }
  }
  if (a.same_as(op->a) && b.same_as(op->b)) return e;
  return ir::MakeBinary(op->Op(), a, b, op->span);
}

Expr Knowledge::SimplifyComparison(const ir::BinaryNode* op, const Expr& e) {
  Expr kept = SimplifyChildren(e);
  if (kept->kind != ExprKind::kBinary) return kept;
  try {
    Poly a = Exact(op->a), b = Exact(op->b);
    if (auto value = DecideComparison(op->Op(), a, b)) return Bool(*value);
    Poly left, right;
    SplitSides(Recombine(a - b), op->Op(), &left, &right);
    Interval range = TypeRange(op->a.dtype());
    bool fits = range.Contains(Bounds(left)) && range.Contains(Bounds(right)) &&
                Bounds(left).IsFinite() && Bounds(right).IsFinite();
    if (!fits) return kept;
    Expr moved = ir::MakeBinary(op->Op(), Build(left, op->a.dtype()), Build(right, op->a.dtype()));
    return Cost(moved) < Cost(kept) ? WithSpan(moved, e.span()) : kept;
  } catch (const CoefficientOverflow&) {
    return kept;
  }
}

Expr Knowledge::SimplifyNot(const ir::UnaryNode* op, const Expr& e) {
  Expr a = Simplify(op->a);
  if (const auto* inner = a.as<ir::UnaryNode>()) return inner->a;
  const auto* comparison = a.as<ir::BinaryNode>();
  if (comparison != nullptr && ir::IsComparison(comparison->Op()) && IsInteger(comparison->a)) {
    static const BinaryOp kOpposite[] = {BinaryOp::kNe, BinaryOp::kEq, BinaryOp::kGe,
                                         BinaryOp::kGt, BinaryOp::kLe, BinaryOp::kLt};
    auto opposite = kOpposite[comparison->op - static_cast<int64_t>(BinaryOp::kEq)];
    return ir::Binary(opposite, comparison->a, comparison->b, op->span);
  }
  return a.same_as(op->a) ? e : ir::Not(a);
}

Expr Knowledge::SimplifySelect(const ir::SelectNode* op, const Expr& e) {
  Expr condition = Simplify(op->condition);
  if (auto value = ir::AsInt(condition)) {
    return Simplify(*value != 0 ? op->true_value : op->false_value);
  }
  Expr values[2] = {Expr{nullptr}, Expr{nullptr}};
  for (bool holds : {true, false}) {
    KnowledgeScope scope(this);
    Assume(condition, holds, true);
    values[holds ? 0 : 1] = Simplify(holds ? op->true_value : op->false_value);
  }
  if (SameStructure(values[0], values[1])) return values[0];
  bool same = condition.same_as(op->condition) && values[0].same_as(op->true_value) &&
              values[1].same_as(op->false_value);
  return same ? e : ir::Select(condition, values[0], values[1], op->span);
}

}  // namespace tilelang::arith
