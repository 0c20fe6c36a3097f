// Numbers in the text of programs: what they were before they were rounded to f32.
#include <bit>
#include <cmath>
#include <optional>

#include "emulator/algebra/field.h"

namespace tilelang::emulator {
namespace {

// Numbers without a formula in the field: any fixed element does, since programs use them in the
// same way.
enum Symbol : uint64_t { kLog2E = 16, kRootOf2OverPi, kPi, kRootOf = 64 };

Element SymbolElement(uint64_t name) { return Hash(name, ElementOfFloat(1)); }

struct Factor {
  double value;
  Element element;
};

const Factor* Factors() {
  static const Element log2e = SymbolElement(kLog2E), root = SymbolElement(kRootOf2OverPi);
  static const Element pi = SymbolElement(kPi);
  static const Factor factors[] = {{1, ElementOfFloat(1)},
                                   {M_LOG2E, log2e},
                                   {M_LN2, Invert(log2e)},
                                   {std::sqrt(M_2_PI), root},
                                   {std::sqrt(M_2_PI) * M_LOG2E, Multiply(root, log2e)},
                                   {M_PI, pi},
                                   {M_1_PI, Invert(pi)}};
  return factors;
}
constexpr int kFactorCount = 7;

// Two roundings to f32.
constexpr double kTolerance = 1.2e-7;
constexpr int kShortBits = 12;            // of numbers that are themselves
constexpr int kLargestDenominator = 255;  // of fractions
constexpr int kLargestReciprocal = 1 << 14;
constexpr int kMostTerms = 24;  // of a continued fraction

struct Fraction {
  int64_t numerator, denominator;
};

// The fraction of small numbers that `value`, in [1, 2), is close to, by its continued fraction.
std::optional<Fraction> FractionNear(double value) {
  int64_t h = 1, k = 0, last_h = 0, last_k = 1;
  double rest = value;
  for (int i = 0; i < kMostTerms; ++i) {
    const double whole = std::floor(rest);
    const auto digit = static_cast<int64_t>(whole);
    const int64_t next_h = digit * h + last_h, next_k = digit * k + last_k;
    last_h = h, last_k = k, h = next_h, k = next_k;
    if (k > kLargestReciprocal) return std::nullopt;
    const double ratio = static_cast<double>(h) / static_cast<double>(k);
    if (std::fabs(ratio / value - 1) <= kTolerance) {
      const bool reciprocal = std::has_single_bit(static_cast<uint64_t>(h));
      if (k <= kLargestDenominator || reciprocal) return Fraction{h, k};
    }
    if (rest - whole < 1e-12) return std::nullopt;
    rest = 1 / (rest - whole);
  }
  return std::nullopt;
}

Element FractionElement(const Fraction& fraction) {
  return Multiply(ElementOf(static_cast<double>(fraction.numerator)),
                  Invert(ElementOf(static_cast<double>(fraction.denominator))));
}

// sqrt(a / b) = (m / b) sqrt(s), where a b = m^2 s and no square divides s.
Element RootElement(const Fraction& fraction) {
  int64_t rest = fraction.numerator * fraction.denominator, root = 1;
  for (int64_t i = 2; i * i <= rest; ++i) {
    while (rest % (i * i) == 0) rest /= i * i, root *= i;
  }
  const Element element = FractionElement({root, fraction.denominator});
  if (rest == 1) return element;
  return Multiply(element, SymbolElement(kRootOf + static_cast<uint64_t>(rest)));
}

// The element of `value` in [1, 2) times a power of two.
std::optional<Element> Recognised(double value) {
  int exponent = 0;
  const double mantissa = 2 * std::frexp(value, &exponent);
  if (const auto fraction = FractionNear(mantissa)) {
    return Multiply(FractionElement(*fraction), ElementOf(std::ldexp(1.0, exponent - 1)));
  }
  const double square = value * value;
  const double square_mantissa = 2 * std::frexp(square, &exponent);
  if (const auto fraction = FractionNear(square_mantissa)) {
    const bool odd = (exponent - 1) % 2 != 0;
    const Fraction scaled{fraction->numerator * (odd ? 2 : 1), fraction->denominator};
    const int half = (exponent - 1 - (odd ? 1 : 0)) / 2;
    return Multiply(RootElement(scaled), ElementOf(std::ldexp(1.0, half)));
  }
  return std::nullopt;
}

// Less significant halves of constants that programs split into two f32: the other half stands for
// the whole. Of log2(e) and ln(2).
bool IsLowHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(std::fabs(value));
  return bits == 0x32A57060 || bits == 0x35BFBE8E || bits == 0x3102E308;
}

bool IsShort(double value) {
  int exponent = 0;
  const double scaled = std::ldexp(std::frexp(value, &exponent), kShortBits);
  return scaled == std::nearbyint(scaled);
}

}  // namespace

Element ElementOfConstant(double value) {
  const auto rounded = static_cast<float>(value);
  if (!std::isfinite(value) || value == 0 || IsShort(value)) return ElementOf(value);
  if (IsLowHalf(rounded)) return ElementOfFloat(0);
  for (int i = 0; i < kFactorCount; ++i) {
    const Factor& factor = Factors()[i];
    const auto found = Recognised(std::fabs(value) / factor.value);
    if (!found) continue;
    const Element element = Multiply(*found, factor.element);
    return value < 0 ? Negate(element) : element;
  }
  return std::isfinite(rounded) ? ElementOfFloat(rounded) : ElementOf(value);
}

}  // namespace tilelang::emulator
