// Constant bounds and divisibility of normal forms.
#include <algorithm>
#include <bit>

#include "arith/knowledge.h"

namespace tilelang::arith {

namespace {

// The smallest 2^k - 1 that is not below a non-negative number.
int64_t AllOnes(int64_t value) {
  int bits = 64 - std::countl_zero(static_cast<uint64_t>(value));
  return bits >= 63 ? kPosInf : (int64_t{1} << bits) - 1;
}

Interval BitBounds(ir::BinaryOp op, const Interval& a, const Interval& b) {
  if (op == ir::BinaryOp::kBitAnd) {
    if (a.lo >= 0 && b.lo >= 0) return {0, std::min(a.hi, b.hi)};
    if (a.lo >= 0) return {0, a.hi};
    return b.lo >= 0 ? Interval{0, b.hi} : Interval{};
  }
  if (a.lo < 0 || b.lo < 0) return {};
  // The bits above the smaller operand stay, as in swizzled indices.
  const Interval& large = a.hi < b.hi ? b : a;
  int64_t changed = AllOnes(std::min(a.hi, b.hi));
  int64_t lo = op == ir::BinaryOp::kBitOr ? std::max(a.lo, b.lo) : large.lo & ~changed;
  return {lo, large.hi | changed};
}

Interval ModBounds(const Interval& a, const Interval& d) {
  if (d.lo <= 0) return {};
  Interval mod{0, d.hi == kPosInf ? kPosInf : d.hi - 1};
  if (a.lo >= 0) mod.hi = std::min(mod.hi, a.hi);
  return mod;
}

}  // namespace

Interval Knowledge::Bounds(const Poly& p) {
  Interval sum = Interval::Point(p.base);
  for (const Poly::Term& t : p.terms) sum = sum + BoundsOf(t.atom) * t.coeff;
  return sum;
}

// Returns the bounds of a divisor. It is not 0 where the division is evaluated.
Interval Knowledge::DivisorBounds(const Poly& p) {
  Interval bounds = Bounds(p);
  if (bounds.lo == 0 && bounds.hi > 0) bounds.lo = 1;
  return bounds;
}

Interval Knowledge::BoundsOf(AtomId id) {
  if (bounds_[id].epoch == epoch_) return bounds_[id].value;
  const Atom& atom = atoms_[id];
  Interval found;
  switch (atom.kind) {
    case AtomKind::kVar:
      break;
    case AtomKind::kOpaque: {
      const auto* cast = atom.expr.as<ir::CastNode>();
      if (cast != nullptr && ir::IsBool(cast->value.dtype())) found = {0, 1};
      break;
    }
    case AtomKind::kProduct: {
      found = Interval::Point(1);
      for (AtomId factor : atom.factors) found = found * BoundsOf(factor);
      bool square = atom.factors.size() == 2 && atom.factors[0] == atom.factors[1];
      if (square) found.lo = std::max<int64_t>(found.lo, 0);
      break;
    }
    case AtomKind::kFloorDiv: {
      Interval d = DivisorBounds(atom.b);
      if (d.lo > 0) found = FloorDiv(Bounds(atom.a), d);
      break;
    }
    case AtomKind::kFloorMod:
      found = ModBounds(Bounds(atom.a), DivisorBounds(atom.b));
      break;
    case AtomKind::kMin:
      found = Min(Bounds(atom.a), Bounds(atom.b));
      break;
    case AtomKind::kMax:
      found = Max(Bounds(atom.a), Bounds(atom.b));
      break;
    case AtomKind::kBits:
      found = BitBounds(atom.op, Bounds(atom.a), Bounds(atom.b));
      break;
    case AtomKind::kSelect:
      found = Hull(Bounds(atom.a), Bounds(atom.b));
      break;
  }
  if (atom.kind != AtomKind::kProduct) found = Intersect(found, TypeRange(atom.dtype));
  found = Intersect(found, known_[id].interval);
  bounds_[id] = {epoch_, found};
  return found;
}

ModularSet Knowledge::Modular(const Poly& p) {
  ModularSet sum = ModularSet::Point(p.base);
  for (const Poly::Term& t : p.terms) sum = sum + ModularOf(t.atom) * ModularSet::Point(t.coeff);
  return sum;
}

ModularSet Knowledge::ModularOf(AtomId id) {
  if (modular_[id].epoch == epoch_) return modular_[id].value;
  const Atom& atom = atoms_[id];
  ModularSet found;
  bool constant_divisor = atom.b.IsConstant() && atom.b.base > 0;
  switch (atom.kind) {
    case AtomKind::kVar:
    case AtomKind::kOpaque:
      break;
    case AtomKind::kProduct:
      found = ModularSet::Point(1);
      for (AtomId factor : atom.factors) found = found * ModularOf(factor);
      break;
    case AtomKind::kFloorDiv:
      if (constant_divisor) found = FloorDiv(Modular(atom.a), atom.b.base);
      break;
    case AtomKind::kFloorMod:
      if (constant_divisor) found = FloorMod(Modular(atom.a), atom.b.base);
      break;
    case AtomKind::kMin:
    case AtomKind::kMax:
    case AtomKind::kSelect:
      found = Hull(Modular(atom.a), Modular(atom.b));
      break;
    case AtomKind::kBits:
      found = BitOperation(atom.op, Modular(atom.a), Modular(atom.b));
      break;
  }
  found = Intersect(found, known_[id].set);
  modular_[id] = {epoch_, found};
  return found;
}

}  // namespace tilelang::arith
