// Facts and their scopes.
#include "arith/knowledge.h"

#include <tvm/ffi/cast.h>

#include "arith/structural.h"
#include "ir/fold.h"
#include "ir/visitor.h"

namespace tilelang::arith {

using ir::BinaryOp;
using ir::Expr;
using ir::ExprKind;

namespace {

bool ReadsMemory(const Expr& e) {
  return ir::HasExpr(e, [&](const Expr& x) {
    const auto* call = x.as<ir::CallNode>();
    return x->kind == ExprKind::kLoad || (call != nullptr && !IsPureCall(call));
  });
}

}  // namespace

Knowledge::Knowledge() { layers_.push_back({epoch_, 0, 0, 0, {}, {}, {}}); }

void Knowledge::Push() {
  layers_.push_back({epoch_, facts_.size(), conditions_.size(), undo_.size(), {}, {}, {}});
}

void Knowledge::Pop() {
  const Layer& layer = layers_.back();
  facts_.resize(layer.facts);
  conditions_.erase(conditions_.begin() + static_cast<int64_t>(layer.conditions),
                    conditions_.end());
  while (undo_.size() > layer.undo) {
    known_[undo_.back().first] = undo_.back().second;
    undo_.pop_back();
  }
  epoch_ = layer.epoch;
  layers_.pop_back();
}

// Results found before stay true, but better ones may be found now.
void Knowledge::Changed() {
  epoch_ = next_epoch_++;
  Layer& layer = layers_.back();
  layer.polys.clear();
  layer.simplified.clear();
  layer.ring_forms.clear();
}

void Knowledge::Refine(AtomId atom, const Interval& interval, const ModularSet& set) {
  Known& known = known_[atom];
  Known refined{Intersect(known.interval, interval), Intersect(known.set, set)};
  if (refined.interval == known.interval && refined.set == known.set) return;
  undo_.emplace_back(atom, known);
  known = refined;
  Changed();
}

void Knowledge::BindRange(const ir::Var& var, const Expr& min, const Expr& extent) {
  AtomId id = VarAtom(var);
  Poly lo = Exact(min);
  Poly size = Exact(extent);
  Poly hi = lo + size + -1;
  Refine(id, {Bounds(lo).lo, Bounds(hi).hi}, {});
  bool fixed = !ReadsMemory(min) && !ReadsMemory(extent);
  if (!fixed) return;
  // The body of an empty range never runs.
  AddFact(size + -1);
  if (!lo.IsConstant()) AddFact(Poly::Of(id) - lo);
  if (!hi.IsConstant()) AddFact(hi - Poly::Of(id));
}

void Knowledge::BindValue(const ir::Var& var, const Expr& value) {
  if (!ir::IsIntegral(var.dtype()) || ir::IsBool(var.dtype())) return;
  Poly p = Exact(value);
  bool variable = p.IsAtom() && atoms_[p.terms[0].atom].kind == AtomKind::kVar &&
                  atoms_[p.terms[0].atom].dtype == var.dtype();
  if (p.IsConstant() || variable) {
    aliases_[var.get()] = p;
    return;
  }
  AtomId id = VarAtom(var);
  atoms_[id].wraps = Wraps(p);
  Refine(id, Bounds(p), Modular(p));
  if (ReadsMemory(value)) return;
  AddFact(Poly::Of(id) - p);
  AddFact(p - Poly::Of(id));
}

void Knowledge::BindMultiple(const ir::Var& var, int64_t factor) {
  if (aliases_.count(var.get()) == 0) Refine(VarAtom(var), {}, {factor, 0});
}

void Knowledge::AddFact(Poly p) {
  int64_t g = p.CoeffGcd();
  if (g == 0) return;
  p.base = ir::FloorDivInt(p.base, g);
  for (Poly::Term& t : p.terms) t.coeff /= g;
  // coeff * atom >= -(everything else), which bounds the atom if the rest is bounded.
  for (const Poly::Term& t : p.terms) {
    int64_t rest = Bounds(p - Poly::Of(t.atom, t.coeff)).hi;
    if (rest == kPosInf || rest == kNegInf) continue;
    Interval interval;
    if (t.coeff > 0) {
      interval.lo = -ir::FloorDivInt(rest, t.coeff);
    } else {
      interval.hi = ir::FloorDivInt(rest, -t.coeff);
    }
    Refine(t.atom, interval, {});
  }
  if (p.terms.size() < 2) return;
  facts_.push_back(std::move(p));
  Changed();
}

void Knowledge::Assume(const Expr& condition, bool holds, bool on_memory) {
  if (ir::AsInt(condition) || (!on_memory && ReadsMemory(condition))) return;
  if (const auto* unary = condition.as<ir::UnaryNode>()) {
    if (unary->Op() == ir::UnaryOp::kNot) return Assume(unary->a, !holds, on_memory);
  }
  const auto* op = condition.as<ir::BinaryNode>();
  if (op != nullptr && op->Op() == (holds ? BinaryOp::kAnd : BinaryOp::kOr)) {
    Assume(op->a, holds, on_memory);
    return Assume(op->b, holds, on_memory);
  }
  if (IsImpure(condition)) return;
  conditions_.emplace_back(condition, holds);
  Changed();
  bool integers = op != nullptr && ir::IsComparison(op->Op()) && ir::IsIntegral(op->a.dtype()) &&
                  !ir::IsBool(op->a.dtype());
  if (!integers) return;
  try {
    AssumeComparison(op, holds);
  } catch (const CoefficientOverflow&) {
    // The fact is not usable.
  }
}

void Knowledge::AssumeComparison(const ir::BinaryNode* op, bool holds) {
  Poly difference = Exact(op->b) - Exact(op->a);
  bool equal = op->Op() == (holds ? BinaryOp::kEq : BinaryOp::kNe);
  bool different = op->Op() == (holds ? BinaryOp::kNe : BinaryOp::kEq);
  if (equal) {
    for (const Poly::Term& t : difference.terms) {
      // x % c == k, spelled with one remainder: x is k modulo c.
      const Atom& atom = atoms_[t.atom];
      bool remainder = difference.terms.size() == 1 && atom.kind == AtomKind::kFloorMod &&
                       atom.a.terms.size() == 1 && std::abs(atom.a.terms[0].coeff) == 1 &&
                       atom.b.IsConstant() && std::abs(t.coeff) == 1;
      if (!remainder) continue;
      int64_t k = -difference.base * t.coeff;
      int64_t x = ir::FloorModInt((k - atom.a.base) * atom.a.terms[0].coeff, atom.b.base);
      Refine(atom.a.terms[0].atom, {}, {atom.b.base, x});
    }
    AddFact(difference);
    return AddFact(difference * -1);
  }
  if (different) {
    if (Bounds(difference).lo == 0) AddFact(difference + -1);
    if (Bounds(difference).hi == 0) AddFact(difference * -1 + -1);
    return;
  }
  bool greater = op->Op() == BinaryOp::kGt || op->Op() == BinaryOp::kGe;
  bool strict = op->Op() == BinaryOp::kGt || op->Op() == BinaryOp::kLt;
  // a < b: b - a - 1 >= 0; not (a < b): a - b >= 0.
  if (greater != !holds) difference = difference * -1;
  AddFact(strict == holds ? difference + -1 : difference);
}

}  // namespace tilelang::arith
