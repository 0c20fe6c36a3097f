// Expressions from normal forms.
#include <algorithm>
#include <map>

#include "arith/knowledge.h"

namespace tilelang::arith {

using ir::BinaryOp;
using ir::DType;
using ir::Expr;

namespace {

constexpr int64_t kInt32Max = 0x7fffffff;

// |atom| * |coeff| at most, saturating.
int64_t Magnitude(const Interval& bounds, int64_t coeff) {
  Interval scaled = bounds * coeff;
  if (scaled.lo == kNegInf) return kPosInf;
  return std::max(scaled.hi, -scaled.lo);
}

}  // namespace

// The factor that most terms share, if two or more do and one of them is a product.
std::optional<AtomId> Knowledge::CommonFactor(const Poly& p) {
  std::map<AtomId, int> uses;
  bool products = false;
  for (const Poly::Term& t : p.terms) {
    std::vector<AtomId> factors = FactorsOf(t.atom);
    products = products || factors.size() > 1;
    factors.erase(std::unique(factors.begin(), factors.end()), factors.end());
    for (AtomId factor : factors) ++uses[factor];
  }
  if (!products) return std::nullopt;
  auto most = std::max_element(uses.begin(), uses.end(),
                               [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most->second < 2) return std::nullopt;
  return most->first;
}

Expr Knowledge::Build(const Poly& p, DType t) {
  if (p.IsConstant()) return ir::Const(t, p.base);
  std::optional<AtomId> factor = CommonFactor(p);
  if (!factor) return BuildSum(p, t);
  Poly inner, outer = Poly::Constant(p.base);
  for (const Poly::Term& term : p.terms) {
    if (auto quotient = DivideAtom(term.atom, *factor)) {
      inner = inner + *quotient * term.coeff;
    } else {
      outer = outer + Poly::Of(term.atom, term.coeff);
    }
  }
  Expr product = Build(inner, t) * BuildAtom(*factor, t);
  if (outer.IsConstant() && outer.base < 0) return product - ir::Const(t, -outer.base);
  if (outer.IsConstant()) return product + ir::Const(t, outer.base);
  return product + Build(outer, t);
}

Poly Knowledge::NarrowPart(const Poly& p) {
  Poly narrow;
  int64_t magnitude = 0;
  for (const Poly::Term& t : p.terms) {
    const Atom& atom = atoms_[t.atom];
    bool small_type = ir::IsInt(atom.dtype) && atom.dtype.bits <= 32;
    int64_t more = Magnitude(BoundsOf(t.atom), t.coeff);
    if (!small_type || atom.kind == AtomKind::kProduct || more > kInt32Max - magnitude) continue;
    magnitude += more;
    narrow.terms.push_back(t);
  }
  bool saves = narrow.terms.size() > 1 || (narrow.terms.size() == 1 && narrow.terms[0].coeff != 1);
  return saves ? narrow : Poly();
}

Expr Knowledge::BuildSum(const Poly& p, DType t) {
  // Coarse digits first, as programs are written.
  Poly wide = p;
  Expr sum{nullptr};
  auto add = [&](const Expr& e) { sum = sum.defined() ? sum + e : e; };
  if (ir::IsInt(t) && t.bits == 64) {
    Poly narrow = NarrowPart(p);
    if (!narrow.IsConstant()) {
      add(ir::CastTo(t, BuildSum(narrow, ir::dtypes::kInt32)));
      wide = p - narrow;
    }
  }
  std::stable_sort(wide.terms.begin(), wide.terms.end(),
                   [](const auto& x, const auto& y) { return x.coeff > y.coeff; });
  for (const Poly::Term& term : wide.terms) {
    if (term.coeff > 0) add(BuildAtom(term.atom, t) * ir::Const(t, term.coeff));
  }
  if (wide.base > 0 || !sum.defined()) add(ir::Const(t, wide.base));
  bool base_done = wide.base > 0 || (sum->kind == ir::ExprKind::kIntImm);
  for (const Poly::Term& term : wide.terms) {
    if (term.coeff >= 0) continue;
    sum = sum - BuildAtom(term.atom, t) * ir::Const(t, -term.coeff);
  }
  return base_done || wide.base == 0 ? sum : sum - ir::Const(t, -wide.base);
}

Expr Knowledge::BuildAtom(AtomId id, DType t) {
  const Atom& atom = atoms_[id];
  switch (atom.kind) {
    case AtomKind::kVar:
    case AtomKind::kOpaque:
      return ir::CastTo(t, atom.expr);
    case AtomKind::kProduct: {
      Expr product = BuildAtom(atom.factors[0], t);
      for (size_t i = 1; i < atom.factors.size(); ++i) {
        product = product * BuildAtom(atom.factors[i], t);
      }
      return product;
    }
    default:
      return NewAtomExpr(id, t);
  }
}

// Computed in the type in which the program computed it, or in the one asked for if that is
// narrower and suffices.
Expr Knowledge::NewAtomExpr(AtomId id, DType t) {
  const Atom& atom = atoms_[id];
  DType u = atom.dtype;
  Interval range = TypeRange(t);
  bool narrower = ir::IsInt(t) && t.bits >= 32 && t.bits < u.bits;
  if (narrower && range.Contains(Bounds(atom.a)) && range.Contains(Bounds(atom.b))) u = t;
  Expr a = Build(atom.a, u);
  Expr b = Build(atom.b, u);
  if (atom.kind == AtomKind::kSelect) return ir::CastTo(t, ir::Select(atom.expr, a, b));
  return ir::CastTo(t, ir::MakeBinary(atom.op, a, b));
}

}  // namespace tilelang::arith
