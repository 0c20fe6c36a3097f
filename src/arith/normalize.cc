// The normal form of expressions.
#include <tvm/ffi/cast.h>

#include <algorithm>

#include "arith/knowledge.h"
#include "arith/node.h"
#include "ir/fold.h"

namespace tilelang::arith {

using ir::BinaryOp;
using ir::Expr;
using ir::ExprKind;

Poly Knowledge::PolyOf(const Expr& e) {
  auto& memo = layers_.back().polys;
  auto it = memo.find(e.get());
  if (it != memo.end()) return it->second.second;
  Poly p;
  try {
    p = Normalize(e);
  } catch (const CoefficientOverflow&) {
    p = Opaque(e);
  }
  // Each evaluation of an impure call is its own value.
  if (!IsImpure(e)) layers_.back().polys.emplace(e.get(), std::pair(e, p));
  return p;
}

Poly Knowledge::Exact(const Expr& e) {
  Poly p = PolyOf(e);
  if (IsValue(p)) return p;
  bool index_type = ir::IsInt(e.dtype()) && e.dtype().bits >= 32;
  if (index_type && !Wraps(p)) return p;
  Interval bounds = Bounds(p);
  if (bounds.IsFinite() && TypeRange(e.dtype()).Contains(bounds)) return p;
  return Opaque(e);
}

Poly Knowledge::Normalize(const Expr& e) {
  if (!IsInteger(e)) return Opaque(e);
  switch (e->kind) {
    case ExprKind::kIntImm: {
      int64_t value = *ir::AsInt(e);
      bool too_large = ir::IsUInt(e.dtype()) && value < 0;
      return too_large ? Opaque(e) : Poly::Constant(value);
    }
    case ExprKind::kVar: {
      auto alias = aliases_.find(e.get());
      if (alias != aliases_.end()) return alias->second;
      AtomId id = VarAtom(tvm::ffi::GetRef<ir::Var>(As<ir::VarNode>(e)));
      Interval bounds = BoundsOf(id);
      return bounds.IsPoint() ? Poly::Constant(bounds.lo) : Poly::Of(id);
    }
    case ExprKind::kBinary:
      return NormalizeBinary(As<ir::BinaryNode>(e), e);
    case ExprKind::kUnary: {
      Poly negated = PolyOf(As<ir::UnaryNode>(e)->a) * -1;
      return As<ir::UnaryNode>(e)->Op() == ir::UnaryOp::kNeg ? negated : negated + -1;
    }
    case ExprKind::kCast:
      return NormalizeCast(As<ir::CastNode>(e), e);
    case ExprKind::kSelect:
      return NormalizeSelect(As<ir::SelectNode>(e), e);
    default:
      return Opaque(e);
  }
}

Poly Knowledge::NormalizeBinary(const ir::BinaryNode* op, const Expr& e) {
  switch (op->Op()) {
    case BinaryOp::kAdd:
      return Recombine(PolyOf(op->a) + PolyOf(op->b));
    case BinaryOp::kSub:
      return Recombine(PolyOf(op->a) - PolyOf(op->b));
    case BinaryOp::kMul:
      return Recombine(Product(PolyOf(op->a), PolyOf(op->b)));
    case BinaryOp::kFloorDiv:
      return Quotient(Exact(op->a), Exact(op->b), e.dtype());
    case BinaryOp::kFloorMod:
      return Remainder(Exact(op->a), Exact(op->b), e.dtype());
    case BinaryOp::kMin:
    case BinaryOp::kMax:
      return MinOrMax(op->Op(), Exact(op->a), Exact(op->b), e.dtype());
    case BinaryOp::kBitAnd:
    case BinaryOp::kBitOr:
    case BinaryOp::kBitXor:
      return Bits(op->Op(), Exact(op->a), Exact(op->b), e.dtype());
    case BinaryOp::kShl:
    case BinaryOp::kShr:
      return NormalizeShift(op, e);
    default:
      return Opaque(e);
  }
}

// Bits that a left shift drops must be known to be none: programs pack bytes with shifts.
Poly Knowledge::NormalizeShift(const ir::BinaryNode* op, const Expr& e) {
  Poly count = Exact(op->b);
  if (!count.IsConstant() || count.base < 0 || count.base >= std::min<int>(e.dtype().bits, 62)) {
    return Opaque(e);
  }
  int64_t factor = int64_t{1} << count.base;
  Poly value = Exact(op->a);
  if (op->Op() == BinaryOp::kShr) return QuotientByConstant(value, factor, e.dtype());
  Interval bounds = Bounds(value) * factor;
  bool fits = bounds.IsFinite() && TypeRange(e.dtype()).Contains(bounds);
  return fits ? value * factor : Opaque(e);
}

Poly Knowledge::NormalizeCast(const ir::CastNode* op, const Expr& e) {
  if (!IsInteger(op->value)) return Opaque(e);
  Poly value = Exact(op->value);
  Interval range = TypeRange(e.dtype());
  Interval bounds = Intersect(Bounds(value), TypeRange(op->value.dtype()));
  bool fits = range.Contains(bounds) && (range.IsFinite() || !ir::IsUInt(op->value.dtype()) ||
                                         op->value.dtype().bits < 64 || bounds.IsFinite());
  return fits ? value : Opaque(e);
}

Poly Knowledge::NormalizeSelect(const ir::SelectNode* op, const Expr& e) {
  Expr condition = Simplify(op->condition);
  if (auto constant = ir::AsInt(condition)) {
    return Exact(*constant != 0 ? op->true_value : op->false_value);
  }
  Poly values[2];
  for (bool holds : {true, false}) {
    KnowledgeScope scope(this);
    Assume(condition, holds, true);
    values[holds ? 0 : 1] = Exact(holds ? op->true_value : op->false_value);
  }
  if (values[0] == values[1] && !IsImpure(condition)) return values[0];
  Atom atom(AtomKind::kSelect);
  atom.a = values[0];
  atom.b = values[1];
  atom.expr = condition;
  atom.dtype = SafeType(atom.a, atom.b, e.dtype());
  atom.wraps = Wraps(atom.a) || Wraps(atom.b);
  return Poly::Of(Intern(std::move(atom)));
}

// x // c * c where x % c is known; x - x // c * c = x % c.
std::optional<Poly> Knowledge::RecombineQuotient(const Poly& p, const Poly::Term& t) {
  const Atom& atom = atoms_[t.atom];
  if (!atom.b.IsConstant() || atom.b.base <= 0 || t.coeff % atom.b.base != 0) return std::nullopt;
  Poly others = p - Poly::Of(t.atom, t.coeff);
  int64_t factor = t.coeff / atom.b.base;
  ModularSet set = Modular(atom.a);
  if (set.coeff % atom.b.base == 0) {
    return others + (atom.a + -ir::FloorModInt(set.base, atom.b.base)) * factor;
  }
  for (const Poly::Term& x : atom.a.terms) {
    if (p.CoeffOf(x.atom) != -CheckedMul(x.coeff, factor)) return std::nullopt;
  }
  return others + (atom.a - RemainderByConstant(atom.a, atom.b.base, atom.dtype)) * factor;
}

// x % c + x // c * c = x; x % c + (x // c % d) * c = x % (c * d).
std::optional<Poly> Knowledge::RecombineRemainder(const Poly& p, const Poly::Term& t) {
  const Atom& atom = atoms_[t.atom];
  Poly others = p - Poly::Of(t.atom, t.coeff);
  Poly quotient = Quotient(atom.a, atom.b, atom.dtype);
  Poly whole = Product(quotient, atom.b) * t.coeff;
  if (whole.terms.size() == 1 && whole.base == 0 &&
      p.CoeffOf(whole.terms[0].atom) == whole.terms[0].coeff) {
    return others - whole + atom.a * t.coeff;
  }
  if (!atom.b.IsConstant()) return std::nullopt;
  for (const Poly::Term& u : others.terms) {
    const Atom& high = atoms_[u.atom];
    bool next_digit = high.kind == AtomKind::kFloorMod && high.b.IsConstant() &&
                      high.a == quotient && CheckedMul(t.coeff, atom.b.base) == u.coeff;
    if (!next_digit) continue;
    Poly rest = others - Poly::Of(u.atom, u.coeff);
    return rest + Remainder(atom.a, high.b * atom.b.base, atom.dtype) * t.coeff;
  }
  return std::nullopt;
}

bool Knowledge::RecombineOnce(Poly* p) {
  for (const Poly::Term& t : p->terms) {
    const Atom& atom = atoms_[t.atom];
    if (!atom.b.IsConstant() && !atom.b.IsAtom()) continue;
    std::optional<Poly> combined;
    if (atom.kind == AtomKind::kFloorDiv) combined = RecombineQuotient(*p, t);
    if (atom.kind == AtomKind::kFloorMod) combined = RecombineRemainder(*p, t);
    if (!combined || *combined == *p) continue;
    *p = std::move(*combined);
    return true;
  }
  return false;
}

Poly Knowledge::Recombine(Poly p) {
  // Each step takes a quotient or remainder away; the limit only guards against surprises.
  for (int step = 0; step < 16 && RecombineOnce(&p); ++step) {
  }
  return p;
}

Poly Knowledge::ExpandRemainders(const Poly& p) {
  Poly expanded = Poly::Constant(p.base);
  for (const Poly::Term& t : p.terms) {
    const Atom& atom = atoms_[t.atom];
    if (atom.kind != AtomKind::kFloorMod) {
      expanded = expanded + Poly::Of(t.atom, t.coeff);
      continue;
    }
    Poly whole = Product(Quotient(atom.a, atom.b, atom.dtype), atom.b);
    expanded = expanded + ExpandRemainders(atom.a - whole) * t.coeff;
  }
  return expanded;
}

}  // namespace tilelang::arith
