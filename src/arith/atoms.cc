// The table of atoms.
#include <algorithm>

#include "arith/knowledge.h"
#include "arith/mix_hash.h"
#include "arith/structural.h"

namespace tilelang::arith {

using ir::Expr;
using ir::ExprKind;

namespace {

constexpr size_t kMaxProductTerms = 64;

}  // namespace

size_t Knowledge::HashOf(const Atom& atom) const {
  size_t h = Mix(static_cast<size_t>(atom.kind), static_cast<size_t>(atom.op));
  h = Mix(Mix(h, Hash(atom.a)), Hash(atom.b));
  for (AtomId factor : atom.factors) h = Mix(h, factor);
  return atom.expr.defined() ? Mix(h, StructuralHash(atom.expr)) : h;
}

bool Knowledge::SameAtom(const Atom& a, const Atom& b) const {
  if (a.kind != b.kind || a.op != b.op || a.a != b.a || a.b != b.b || a.factors != b.factors) {
    return false;
  }
  if (!a.expr.defined() || !b.expr.defined()) return !a.expr.defined() && !b.expr.defined();
  return SameStructure(a.expr, b.expr);
}

AtomId Knowledge::Intern(Atom atom) {
  size_t hash = HashOf(atom);
  auto range = index_.equal_range(hash);
  for (auto it = range.first; it != range.second; ++it) {
    if (SameAtom(atoms_[it->second], atom)) return it->second;
  }
  auto id = static_cast<AtomId>(atoms_.size());
  atoms_.push_back(std::move(atom));
  known_.emplace_back();
  bounds_.emplace_back();
  modular_.emplace_back();
  index_.emplace(hash, id);
  return id;
}

AtomId Knowledge::VarAtom(const ir::Var& var) {
  Atom atom(AtomKind::kVar);
  atom.expr = var;
  atom.dtype = var.dtype();
  return Intern(std::move(atom));
}

Poly Knowledge::Opaque(const Expr& e) {
  Atom atom(AtomKind::kOpaque);
  atom.expr = SimplifyChildren(e);
  atom.dtype = e.dtype();
  atom.wraps = true;
  return Poly::Of(Intern(std::move(atom)));
}

// A product is only equal to what the program computes modulo 2^bits.
bool Knowledge::IsValue(const Poly& p) const {
  return p.IsAtom() && atoms_[p.terms[0].atom].kind != AtomKind::kProduct;
}

bool Knowledge::Wraps(const Poly& p) const {
  return std::any_of(p.terms.begin(), p.terms.end(),
                     [this](const Poly::Term& t) { return atoms_[t.atom].wraps; });
}

ir::DType Knowledge::SafeType(const Poly& a, const Poly& b, ir::DType t) {
  if (ir::IsInt(t) && t.bits >= 32 && !Wraps(a) && !Wraps(b)) return t;
  Interval range = TypeRange(t);
  auto fits = [&](const Poly& p) {
    return IsValue(p) || p.IsConstant() || (Bounds(p).IsFinite() && range.Contains(Bounds(p)));
  };
  if (fits(a) && fits(b) && range.Contains(Bounds(a)) && range.Contains(Bounds(b))) return t;
  if (t.bits == 64) throw CoefficientOverflow();
  return ir::dtypes::kInt64;
}

Poly Knowledge::Operation(AtomKind kind, ir::BinaryOp op, const Poly& a, const Poly& b,
                          ir::DType t) {
  Atom atom(kind);
  atom.op = op;
  atom.a = a;
  atom.b = b;
  atom.dtype = SafeType(a, b, t);
  atom.wraps = Wraps(a) || Wraps(b);
  AtomId id = Intern(std::move(atom));
  Interval bounds = BoundsOf(id);
  return bounds.IsPoint() ? Poly::Constant(bounds.lo) : Poly::Of(id);
}

std::vector<AtomId> Knowledge::FactorsOf(AtomId atom) const {
  const Atom& node = atoms_[atom];
  return node.kind == AtomKind::kProduct ? node.factors : std::vector<AtomId>{atom};
}

Poly Knowledge::Product(const Poly& a, const Poly& b) {
  if (b.IsConstant()) return a * b.base;
  if (a.IsConstant()) return b * a.base;
  if (a.terms.size() * b.terms.size() > kMaxProductTerms) throw CoefficientOverflow();
  Poly product = a * b.base + b * a.base;
  // The constants' product was counted twice.
  product = product - Poly::Constant(a.base) * b.base;
  for (const Poly::Term& x : a.terms) {
    for (const Poly::Term& y : b.terms) {
      Atom atom(AtomKind::kProduct);
      std::vector<AtomId> fx = FactorsOf(x.atom), fy = FactorsOf(y.atom);
      std::merge(fx.begin(), fx.end(), fy.begin(), fy.end(), std::back_inserter(atom.factors));
      atom.dtype = atoms_[x.atom].dtype;
      atom.wraps = atoms_[x.atom].wraps || atoms_[y.atom].wraps;
      product = product + Poly::Of(Intern(std::move(atom)), x.coeff) * y.coeff;
    }
  }
  return product;
}

std::optional<Poly> Knowledge::DivideAtom(AtomId atom, AtomId divisor) {
  std::vector<AtomId> have = FactorsOf(atom), take = FactorsOf(divisor), rest;
  if (!std::includes(have.begin(), have.end(), take.begin(), take.end())) return std::nullopt;
  std::set_difference(have.begin(), have.end(), take.begin(), take.end(), std::back_inserter(rest));
  Poly quotient = Poly::Constant(1);
  for (AtomId factor : rest) quotient = Product(quotient, Poly::Of(factor));
  return quotient;
}

bool Knowledge::DependsOn(const Poly& p, const ir::Var& var) const {
  return std::any_of(p.terms.begin(), p.terms.end(),
                     [&](const Poly::Term& t) { return DependsOn(t.atom, var); });
}

}  // namespace tilelang::arith
