// Elements of finite rings that stand for real numbers, so that equal formulas give equal elements
// whatever the order of their operations.
//
// An element has two residues and two exponents. A residue is a number modulo a prime P; the two
// primes have 30 bits. An exponent is the same number modulo N = (P - 1) / 2, which is odd and the
// order of 2 modulo P. Hence 2^x modulo P is defined for an exponent x, and
//
//   exp2(a + b) = exp2(a) * exp2(b),  exp2(n) = 2^n for every integer n.
//
// exp2 makes residues of exponents: its result has no exponents, because 2^x modulo P is not a
// function of x modulo P. log2 makes exponents of residues, and N is a product of two small primes,
// so that discrete logarithms are cheap. Where an operation needs a part that the operand lacks, a
// hash of the other part takes its place: a function, but one without identities.
//
// Square roots: -1 is no square modulo P. The root of a number that is no square is a multiple of
// i = sqrt(-1), which a bit of the residue says. A sum of a multiple of i and another number takes
// a fixed random number for i, so that sums of such numbers do not depend on their order, but
// products of such sums do not know that i^2 = -1.
// A bit of an exponent says that the number is the logarithm of a number that is no square.
#ifndef TILELANG_EMULATOR_ALGEBRA_FIELD_H_
#define TILELANG_EMULATOR_ALGEBRA_FIELD_H_

#include <algorithm>
#include <cstdint>

namespace tilelang::emulator {

// Residues 0 and 1, then the exponents that belong to them, all in Montgomery form (times 2^32).
struct alignas(16) Element {
  uint32_t part[4];

  bool has_residues() const { return !(part[0] >> 31); }
  bool has_exponents() const { return !(part[2] >> 31); }
  bool known() const { return has_residues() || has_exponents(); }
};

constexpr int kResidues = 2;
constexpr int kParts = 4;
constexpr uint32_t kModuli[kParts] = {1073652023, 1073692559, 536826011, 536846279};
constexpr uint32_t kAbsentPart = uint32_t{1} << 31;
// Marks a residue that is multiplied by i, or an exponent that is the logarithm of a negative
// number.
constexpr uint32_t kTwistBit = uint32_t{1} << 30;
constexpr Element kUnknownElement{{kAbsentPart, kAbsentPart, kAbsentPart, kAbsentPart}};

// -1 / modulus, modulo 2^32.
constexpr uint32_t NegativeInverse(uint32_t modulus) {
  uint32_t inverse = modulus;
  for (int i = 0; i < 5; ++i) inverse *= 2 - modulus * inverse;
  return ~inverse + 1;
}
constexpr uint32_t kNegativeInverses[kParts] = {
    NegativeInverse(kModuli[0]), NegativeInverse(kModuli[1]), NegativeInverse(kModuli[2]),
    NegativeInverse(kModuli[3])};

// t / 2^32 modulo the modulus of a part, for t below 2^32 times the modulus.
inline uint32_t Reduced(uint64_t t, int part) {
  const uint32_t modulus = kModuli[part];
  const uint32_t m = static_cast<uint32_t>(t) * kNegativeInverses[part];
  const auto r = static_cast<uint32_t>((t + uint64_t{m} * modulus) >> 32);
  return std::min(r, r - modulus);  // unsigned: one of them may have wrapped around
}

// The exact value of a finite number; unknown for others.
Element ElementOfFloat(float value);
Element ElementOf(double value);
// Returns the element of a number in a program's text. Fractions, roots of fractions, and multiples
// of log2(e) and ln(2) that were rounded to f32 stand for their exact values.
Element ElementOfConstant(double value);

// Each result is unknown if an operand is.
Element Add(const Element& a, const Element& b);
Element Multiply(const Element& a, const Element& b);
Element Negate(const Element& a);
inline Element Subtract(const Element& a, const Element& b) { return Add(a, Negate(b)); }
// 1 / a, and 0 for 0.
Element Invert(const Element& a);
Element Exp2(const Element& a);
Element Log2(const Element& a);
Element Sqrt(const Element& a);
inline Element Rsqrt(const Element& a) { return Invert(Sqrt(a)); }
// (exp(2 a) - 1) / (exp(2 a) + 1).
Element Tanh(const Element& a);
// Functions of which no identity is known here.
Element Sine(const Element& a);
Element Cosine(const Element& a);
// A function without identities, one for each `name`.
Element Hash(uint64_t name, const Element& a);

// The element with fixed numbers for its twists: what sums and comparisons see.
Element Untwisted(const Element& a);
// Returns the element with residues: its own, or those of a hash.
Element WithResidues(const Element& a);
// Returns whether two elements stand for the same number. Compares their exponents if one of them
// has no residues.
bool SameElement(const Element& a, const Element& b);
// An order of elements without a meaning, to choose among equal floats the same one in any order.
bool ElementBefore(const Element& a, const Element& b);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ALGEBRA_FIELD_H_
