// Quotients and remainders of normal forms, rounding toward minus infinity.
#include <algorithm>
#include <numeric>

#include "arith/knowledge.h"
#include "ir/fold.h"

namespace tilelang::arith {

using ir::BinaryOp;
using ir::FloorDivInt;
using ir::FloorModInt;

namespace {

// x // d if it is the same for all x in the interval.
std::optional<int64_t> ConstantQuotient(const Interval& x, int64_t d) {
  if (!x.IsFinite() || FloorDivInt(x.lo, d) != FloorDivInt(x.hi, d)) return std::nullopt;
  return FloorDivInt(x.lo, d);
}

}  // namespace

Poly Knowledge::Quotient(const Poly& n, const Poly& d, ir::DType t) {
  if (d.IsConstant() && d.base > 0) return QuotientByConstant(n, d.base, t);
  if (d.IsConstant() && d.base < 0) return Quotient(n * -1, d * -1, t);
  if (d.IsConstant()) return Operation(AtomKind::kFloorDiv, BinaryOp::kFloorDiv, n, d, t);
  Poly whole, rest;
  SplitBySymbol(n, d, &whole, &rest);
  if ((rest.IsConstant() && rest.base == 0) || IsDigit(rest, d)) return whole;
  return whole + Operation(AtomKind::kFloorDiv, BinaryOp::kFloorDiv, rest, d, t);
}

Poly Knowledge::Remainder(const Poly& n, const Poly& d, ir::DType t) {
  if (d.IsConstant() && d.base > 0) return RemainderByConstant(n, d.base, t);
  if (d.IsConstant() && d.base < 0) return Remainder(n * -1, d * -1, t) * -1;
  if (d.IsConstant()) return Operation(AtomKind::kFloorMod, BinaryOp::kFloorMod, n, d, t);
  Poly whole, rest;
  SplitBySymbol(n, d, &whole, &rest);
  if ((rest.IsConstant() && rest.base == 0) || IsDigit(rest, d)) return rest;
  return Operation(AtomKind::kFloorMod, BinaryOp::kFloorMod, rest, d, t);
}

bool Knowledge::IsDigit(const Poly& n, const Poly& d) {
  return NonNegative(n) && NonNegative(d - n + -1);
}

void Knowledge::SplitBySymbol(const Poly& n, const Poly& d, Poly* whole, Poly* rest) {
  *rest = n;
  if (n == d) {
    *whole = Poly::Constant(1);
    *rest = Poly();
  }
  if (d.terms.size() != 1 || d.base != 0) return;
  int64_t c = d.terms[0].coeff;
  for (const Poly::Term& t : n.terms) {
    std::optional<Poly> quotient = DivideAtom(t.atom, d.terms[0].atom);
    if (!quotient || t.coeff % c != 0) continue;
    *whole = *whole + *quotient * (t.coeff / c);
    *rest = *rest - Poly::Of(t.atom, t.coeff);
  }
}

bool Knowledge::SplitAt(const Poly& n, int64_t g, Poly* high, Poly* low) {
  *high = Poly();
  *low = Poly::Constant(FloorModInt(n.base, g));
  high->base = FloorDivInt(n.base, g);
  for (const Poly::Term& t : n.terms) {
    if (t.coeff % g == 0) {
      high->terms.push_back({t.atom, t.coeff / g});
    } else {
      low->terms.push_back(t);
    }
  }
  std::optional<int64_t> carry = ConstantQuotient(Bounds(*low), g);
  if (!carry) return false;
  *high = *high + *carry;
  *low = *low + -(*carry * g);
  return true;
}

bool Knowledge::SplitDigits(const Poly& n, int64_t c, int64_t* g, Poly* high, Poly* low) {
  std::vector<int64_t> candidates;
  for (const Poly::Term& t : n.terms) candidates.push_back(std::gcd(t.coeff, c));
  std::sort(candidates.rbegin(), candidates.rend());
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  for (int64_t candidate : candidates) {
    if (candidate <= 1) continue;
    *g = candidate;
    if (SplitAt(n, candidate, high, low)) return true;
  }
  return false;
}

Poly Knowledge::QuotientByConstant(const Poly& n, int64_t c, ir::DType t) {
  if (c == 1) return n;
  Poly whole = Poly::Constant(FloorDivInt(n.base, c));
  Poly rest = Poly::Constant(FloorModInt(n.base, c));
  for (const Poly::Term& term : n.terms) {
    if (term.coeff % c == 0) {
      whole.terms.push_back({term.atom, term.coeff / c});
    } else {
      rest.terms.push_back(term);
    }
  }
  if (auto constant = ConstantQuotient(Bounds(rest), c)) return whole + *constant;
  ModularSet set = Modular(rest);
  // (g * k + r) // c = (g * k) // c, where g divides c and r < g
  int64_t known_rest = FloorModInt(set.base, std::gcd(set.coeff, c));
  if (known_rest != 0) return whole + QuotientByConstant(rest + -known_rest, c, t);
  int64_t g = 0;
  Poly high, low;
  if (SplitDigits(rest, c, &g, &high, &low)) return whole + QuotientByConstant(high, c / g, t);
  if (rest.terms.size() == 1 && rest.terms[0].coeff == 1) {
    const Atom& atom = atoms_[rest.terms[0].atom];
    int64_t product = 0;
    bool constant_divisor = atom.b.IsConstant() && atom.b.base > 0;
    if (atom.kind == AtomKind::kFloorDiv && constant_divisor &&
        !__builtin_mul_overflow(atom.b.base, c, &product) && product <= INT32_MAX) {
      // (x // d + r) // c = (x + r * d) // (d * c)
      Poly inner = atom.a + rest.base * atom.b.base;
      return whole + QuotientByConstant(inner, product, atom.dtype);
    }
    if (atom.kind == AtomKind::kFloorMod && constant_divisor && rest.base == 0 &&
        atom.b.base % c == 0) {
      Poly digit = QuotientByConstant(atom.a, c, atom.dtype);
      return whole + RemainderByConstant(digit, atom.b.base / c, atom.dtype);
    }
  }
  return whole + Operation(AtomKind::kFloorDiv, BinaryOp::kFloorDiv, rest, Poly::Constant(c), t);
}

Poly Knowledge::RemainderByConstant(const Poly& n, int64_t c, ir::DType t) {
  if (c == 1) return {};
  Poly rest = Poly::Constant(FloorModInt(n.base, c));
  for (const Poly::Term& term : n.terms) {
    int64_t coeff = term.coeff % c;
    if (coeff == 0) continue;
    const Atom& atom = atoms_[term.atom];
    bool inner_mod = atom.kind == AtomKind::kFloorMod && atom.b.IsConstant() && atom.b.base > 0 &&
                     CheckedMul(coeff, atom.b.base) % c == 0;
    // coeff * (x % d) differs from coeff * x by a multiple of coeff * d.
    if (inner_mod) {
      Poly unwrapped = n - Poly::Of(term.atom, term.coeff) + atom.a * coeff;
      return RemainderByConstant(unwrapped, c, t);
    }
    rest.terms.push_back({term.atom, coeff});
  }
  if (auto k = ConstantQuotient(Bounds(rest), c)) return rest + -(*k * c);
  ModularSet set = Modular(rest);
  if (set.coeff % c == 0) return Poly::Constant(FloorModInt(set.base, c));
  int64_t g = 0;
  Poly high, low;
  if (SplitDigits(rest, c, &g, &high, &low)) {
    return RemainderByConstant(high, c / g, t) * g + low;
  }
  return Operation(AtomKind::kFloorMod, BinaryOp::kFloorMod, rest, Poly::Constant(c), t);
}

}  // namespace tilelang::arith
