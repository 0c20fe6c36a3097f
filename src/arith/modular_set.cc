#include "arith/modular_set.h"

#include <cstdlib>
#include <numeric>

#include "arith/interval.h"
#include "ir/fold.h"

namespace tilelang::arith {

using ir::FloorDivInt;
using ir::FloorModInt;

namespace {

// Returns the set with its base in [0, coeff). A coefficient or base that is out of reach of 64
// bits comes here as nullopt-like {1, 0}.
ModularSet Normal(int64_t coeff, int64_t base) {
  if (coeff == kNegInf) return {};
  coeff = std::abs(coeff);
  return {coeff, coeff == 0 ? base : FloorModInt(base, coeff)};
}

int64_t Gcd(int64_t a, int64_t b) {
  if (a == kNegInf || b == kNegInf) return 1;
  return std::gcd(a, b);
}

int64_t Apply(ir::BinaryOp op, int64_t a, int64_t b) {
  if (op == ir::BinaryOp::kBitAnd) return a & b;
  return op == ir::BinaryOp::kBitOr ? a | b : a ^ b;
}

// The largest power of two that divides every element: 2^62 for zero.
int64_t PowerOfTwoFactor(const ModularSet& a) {
  int64_t bits = a.coeff | a.base | (int64_t{1} << 62);
  return bits & -bits;
}

}  // namespace

bool ModularSet::Contains(int64_t value) const {
  return coeff == 0 ? value == base : FloorModInt(value, coeff) == base;
}

bool ModularSet::DisjointFrom(const ModularSet& other) const {
  int64_t g = Gcd(coeff, other.coeff);
  if (g == 0) return base != other.base;
  return FloorModInt(base, g) != FloorModInt(other.base, g);
}

ModularSet operator+(const ModularSet& a, const ModularSet& b) {
  int64_t base = 0;
  if (__builtin_add_overflow(a.base, b.base, &base)) return {};
  return Normal(Gcd(a.coeff, b.coeff), base);
}

ModularSet operator*(const ModularSet& a, const ModularSet& b) {
  int64_t cc = 0, cb = 0, bc = 0, bb = 0;
  if (__builtin_mul_overflow(a.coeff, b.coeff, &cc) ||
      __builtin_mul_overflow(a.coeff, b.base, &cb) ||
      __builtin_mul_overflow(a.base, b.coeff, &bc) || __builtin_mul_overflow(a.base, b.base, &bb)) {
    return {};
  }
  return Normal(Gcd(cc, Gcd(cb, bc)), bb);
}

ModularSet Hull(const ModularSet& a, const ModularSet& b) {
  int64_t difference = 0;
  if (__builtin_sub_overflow(a.base, b.base, &difference)) return {};
  return Normal(Gcd(Gcd(a.coeff, b.coeff), difference), a.base);
}

ModularSet Intersect(const ModularSet& a, const ModularSet& b) {
  if (a.coeff == 0 || b.coeff == 1 || a.DisjointFrom(b)) return a;
  if (b.coeff == 0 || a.coeff == 1) return b;
  // The full answer is the Chinese remainder theorem's; finding the base by search is enough for
  // the small moduli of alignment.
  int64_t lcm = 0;
  if (__builtin_mul_overflow(a.coeff / Gcd(a.coeff, b.coeff), b.coeff, &lcm)) return a;
  int64_t steps = lcm / a.coeff;
  if (steps > 4096) return a.coeff >= b.coeff ? a : b;
  for (int64_t k = 0; k < steps; ++k) {
    if (b.Contains(a.base + k * a.coeff)) return {lcm, a.base + k * a.coeff};
  }
  return a;
}

ModularSet FloorDiv(const ModularSet& a, int64_t c) {
  if (a.coeff % c != 0) return {};
  return Normal(a.coeff / c, FloorDivInt(a.base, c));
}

ModularSet FloorMod(const ModularSet& a, int64_t c) {
  // x = coeff * k + base, and x % c differs from x by a multiple of c.
  int64_t g = Gcd(a.coeff, c);
  if (g == c) return ModularSet::Point(FloorModInt(a.base, c));
  return Normal(g, a.base);
}

ModularSet BitOperation(ir::BinaryOp op, const ModularSet& a, const ModularSet& b) {
  if (a.coeff == 0 && b.coeff == 0) return ModularSet::Point(Apply(op, a.base, b.base));
  // The low bits below the power of two in both coefficients are known.
  int64_t known = Gcd(a.coeff, b.coeff);
  known &= -known;
  ModularSet low = Normal(known, Apply(op, a.base & (known - 1), b.base & (known - 1)));
  if (op != ir::BinaryOp::kBitAnd) return low;
  // Zeros below in either operand stay zeros.
  int64_t zeros = std::max(PowerOfTwoFactor(a), PowerOfTwoFactor(b));
  return Intersect(low, {zeros, 0});
}

}  // namespace tilelang::arith
