// Divisibility: sets { coeff * k + base }.
#ifndef TILELANG_ARITH_MODULAR_SET_H_
#define TILELANG_ARITH_MODULAR_SET_H_

#include <cstdint>

#include "ir/expr.h"

namespace tilelang::arith {

// All integers congruent to base modulo coeff, 0 <= base < coeff; coeff 0: the constant `base`
// (of any sign); {1, 0}: every integer.
struct ModularSet {
  int64_t coeff = 1;
  int64_t base = 0;

  static ModularSet Point(int64_t value) { return {0, value}; }
  // Every value is a multiple of n > 0.
  bool DividedBy(int64_t n) const { return coeff % n == 0 && base % n == 0; }
  bool Contains(int64_t value) const;
  // Nothing is in both sets.
  bool DisjointFrom(const ModularSet& other) const;
  bool operator==(const ModularSet&) const = default;
};

ModularSet operator+(const ModularSet& a, const ModularSet& b);
ModularSet operator*(const ModularSet& a, const ModularSet& b);
// The smallest set that contains both.
ModularSet Hull(const ModularSet& a, const ModularSet& b);
// A set that contains the common part.
ModularSet Intersect(const ModularSet& a, const ModularSet& b);
// x // c and x % c for c > 0, where x is in `a`.
ModularSet FloorDiv(const ModularSet& a, int64_t c);
ModularSet FloorMod(const ModularSet& a, int64_t c);
// x op y for the bit operations &, | and ^ on two's complement numbers.
ModularSet BitOperation(ir::BinaryOp op, const ModularSet& a, const ModularSet& b);

}  // namespace tilelang::arith

#endif  // TILELANG_ARITH_MODULAR_SET_H_
