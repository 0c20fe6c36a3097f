#include "arith/poly.h"

#include <algorithm>
#include <numeric>

namespace tilelang::arith {

namespace {

int64_t Add(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) throw CoefficientOverflow();
  return sum;
}

}  // namespace

int64_t CheckedMul(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) throw CoefficientOverflow();
  return product;
}

int64_t Poly::CoeffOf(AtomId atom) const {
  auto it = std::lower_bound(terms.begin(), terms.end(), atom,
                             [](const Term& t, AtomId id) { return t.atom < id; });
  return it != terms.end() && it->atom == atom ? it->coeff : 0;
}

int64_t Poly::CoeffGcd() const {
  int64_t g = 0;
  for (const Term& t : terms) g = std::gcd(g, t.coeff);
  return g;
}

Poly operator+(const Poly& a, const Poly& b) {
  Poly sum;
  sum.base = Add(a.base, b.base);
  sum.terms.reserve(a.terms.size() + b.terms.size());
  auto x = a.terms.begin();
  auto y = b.terms.begin();
  while (x != a.terms.end() || y != b.terms.end()) {
    if (y == b.terms.end() || (x != a.terms.end() && x->atom < y->atom)) {
      sum.terms.push_back(*x++);
    } else if (x == a.terms.end() || y->atom < x->atom) {
      sum.terms.push_back(*y++);
    } else {
      int64_t coeff = Add(x->coeff, y->coeff);
      if (coeff != 0) sum.terms.push_back({x->atom, coeff});
      ++x;
      ++y;
    }
  }
  return sum;
}

Poly operator-(const Poly& a, const Poly& b) { return a + b * -1; }

Poly operator*(const Poly& a, int64_t factor) {
  if (factor == 0) return {};
  Poly product = a;
  for (Poly::Term& t : product.terms) t.coeff = CheckedMul(t.coeff, factor);
  product.base = CheckedMul(a.base, factor);
  return product;
}

Poly operator+(const Poly& a, int64_t constant) {
  Poly sum = a;
  sum.base = Add(a.base, constant);
  return sum;
}

size_t Hash(const Poly& p) {
  size_t h = static_cast<size_t>(p.base) * 0x9E3779B97F4A7C15u;
  for (const Poly::Term& t : p.terms) {
    h = (h ^ t.atom) * 0x9E3779B97F4A7C15u;
    h = (h ^ static_cast<size_t>(t.coeff)) * 0xC2B2AE3D27D4EB4Fu + (h >> 29);
  }
  return h;
}

}  // namespace tilelang::arith
