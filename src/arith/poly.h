// Linear combinations of atoms: the normal form of integer expressions.
#ifndef TILELANG_ARITH_POLY_H_
#define TILELANG_ARITH_POLY_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tilelang::arith {

// Index into the analyzer's table of atoms: variables, products, quotients, remainders, loads...
using AtomId = uint32_t;

// Thrown when a coefficient leaves 64 bits; the expression is then left as it is.
struct CoefficientOverflow {};

int64_t CheckedMul(int64_t a, int64_t b);

// sum of coeff * atom, plus base. Terms are sorted by atom, coefficients are not 0.
struct Poly {
  struct Term {
    AtomId atom;
    int64_t coeff;
    auto operator<=>(const Term&) const = default;
  };
  std::vector<Term> terms;
  int64_t base = 0;

  static Poly Constant(int64_t value) { return {{}, value}; }
  static Poly Of(AtomId atom, int64_t coeff = 1) { return {{{atom, coeff}}, 0}; }
  bool IsConstant() const { return terms.empty(); }
  // One atom and nothing else.
  bool IsAtom() const { return terms.size() == 1 && terms[0].coeff == 1 && base == 0; }
  int64_t CoeffOf(AtomId atom) const;
  // The greatest common divisor of the coefficients, without the base; 0 for a constant.
  int64_t CoeffGcd() const;
  auto operator<=>(const Poly&) const = default;
};

Poly operator+(const Poly& a, const Poly& b);
Poly operator-(const Poly& a, const Poly& b);
Poly operator*(const Poly& a, int64_t factor);
Poly operator+(const Poly& a, int64_t constant);
size_t Hash(const Poly& p);

}  // namespace tilelang::arith

#endif  // TILELANG_ARITH_POLY_H_
