// Minimum, maximum and bit operations of normal forms.
#include "arith/knowledge.h"
#include "ir/fold.h"

namespace tilelang::arith {

using ir::BinaryOp;

Poly Knowledge::MinOrMax(BinaryOp op, const Poly& a, const Poly& b, ir::DType t) {
  bool min = op == BinaryOp::kMin;
  if (NonNegative(b - a)) return min ? a : b;
  if (NonNegative(a - b)) return min ? b : a;
  AtomKind kind = min ? AtomKind::kMin : AtomKind::kMax;
  // min(min(u, v), b) where b is comparable with u or v.
  for (const auto& [nested, other] : {std::pair(a, b), std::pair(b, a)}) {
    if (!nested.IsAtom() || atoms_[nested.terms[0].atom].kind != kind) continue;
    const Atom& inner = atoms_[nested.terms[0].atom];
    for (const auto& [u, v] : {std::pair(inner.a, inner.b), std::pair(inner.b, inner.a)}) {
      bool other_above = NonNegative(other - u), other_below = NonNegative(u - other);
      if (min ? other_above : other_below) return nested;
      if (min ? other_below : other_above) return MinOrMax(op, v, other, t);
    }
  }
  bool swap = !b.IsConstant() && (a.IsConstant() || b < a);
  return Operation(kind, op, swap ? b : a, swap ? a : b, t);
}

// a = g * high + low with low < g and all of b a multiple of g, a power of two: the operation
// works on the high and the low bits apart.
std::optional<Poly> Knowledge::SplitBits(BinaryOp op, const Poly& a, const Poly& b, ir::DType t) {
  ModularSet set = Modular(b);
  int64_t all = set.coeff | set.base;
  int64_t g = all & -all;
  Poly high, low;
  if (g <= 1 || !SplitAt(a, g, &high, &low)) return std::nullopt;
  Poly bits = Bits(op, high, QuotientByConstant(b, g, t), t) * g;
  return op == BinaryOp::kBitAnd ? bits : bits + low;
}

// a = g * high + low with a constant low < g, a power of two, and a constant b in [0, g).
std::optional<Poly> Knowledge::KnownBits(BinaryOp op, const Poly& a, const Poly& b) {
  ModularSet set = Modular(a);
  int64_t g = set.coeff & -set.coeff;
  if (!b.IsConstant() || b.base < 0 || b.base >= g) return std::nullopt;
  int64_t low = ir::FloorModInt(set.base, g);
  if (op == BinaryOp::kBitAnd) return Poly::Constant(low & b.base);
  return a + ((op == BinaryOp::kBitXor ? low ^ b.base : low | b.base) - low);
}

Poly Knowledge::Bits(BinaryOp op, const Poly& a, const Poly& b, ir::DType t) {
  if (a.IsConstant() && b.IsConstant()) {
    return Poly::Constant(ir::Wrap(t, *ir::FoldInt(op, t, a.base, b.base)));
  }
  if (a.IsConstant()) return Bits(op, b, a, t);
  if (b.IsConstant() && b.base == 0) return op == BinaryOp::kBitAnd ? b : a;
  if (a == b) return op == BinaryOp::kBitXor ? Poly() : a;
  bool mask = b.IsConstant() && b.base > 0 && (b.base & (b.base + 1)) == 0 && b.base < INT32_MAX;
  if (mask && op == BinaryOp::kBitAnd) return RemainderByConstant(a, b.base + 1, t);
  if (auto split = SplitBits(op, a, b, t)) return *split;
  if (auto split = SplitBits(op, b, a, t)) return *split;
  if (auto known = KnownBits(op, a, b)) return *known;
  bool swap = !b.IsConstant() && (a.IsConstant() || b < a);
  return Operation(AtomKind::kBits, op, swap ? b : a, swap ? a : b, t);
}

}  // namespace tilelang::arith
