#include "emulator/algebra/field.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "emulator/algebra/discrete_log.h"
#include "emulator/algebra/residue.h"

namespace tilelang::emulator {
namespace {

constexpr int kLeastExponent = -1200, kExponents = 2400;

// 2^e times 2^64 modulo each modulus, so that a Montgomery product with an integer gives an
// element.
struct PowersOfTwo {
  Element of[kExponents];
  PowersOfTwo() {
    for (int part = 0; part < kParts; ++part) {
      const uint32_t modulus = kModuli[part];
      const uint64_t half = (uint64_t{modulus} + 1) / 2;
      uint64_t power = PowerOf(half, static_cast<uint64_t>(-kLeastExponent), modulus);
      const uint64_t square = (uint64_t{1} << 32) % modulus * ((uint64_t{1} << 32) % modulus);
      power = power * (square % modulus) % modulus;
      for (Element& each : of) {
        each.part[part] = static_cast<uint32_t>(power);
        power = power * 2 % modulus;
      }
    }
  }
};

const PowersOfTwo& Powers() {
  static const PowersOfTwo powers;
  return powers;
}

// integer * 2^exponent; the integer has at most 31 bits.
Element Scaled(uint32_t integer, int exponent, bool negative) {
  const Element& power = Powers().of[exponent - kLeastExponent];
  Element result;
  for (int i = 0; i < kParts; ++i) {
    const uint32_t part = Reduced(uint64_t{integer} * power.part[i], i);
    result.part[i] = negative && part ? kModuli[i] - part : part;
  }
  return result;
}

bool Twisted(const Element& a, const Element& b) {
  uint32_t bits = 0;
  for (int i = 0; i < kParts; ++i) bits |= a.part[i] | b.part[i];
  return (bits & kTwistBit) != 0;
}

uint32_t AddPart(uint32_t a, uint32_t b, int part) {
  const uint32_t sum = a + b;
  return sum >= kModuli[part] ? sum - kModuli[part] : sum;
}

uint32_t NegatePart(uint32_t a, int part) { return a ? kModuli[part] - a : 0; }

uint32_t MultiplyPart(uint32_t a, uint32_t b, int part) { return Reduced(uint64_t{a} * b, part); }

uint32_t UntwistedPart(uint32_t a, int part) {
  if (!(a & kTwistBit)) return a;
  // Any numbers; those of the exponents are not used.
  constexpr uint32_t kFixed[kResidues] = {712934811, 401772919};
  return MultiplyPart(a & ~kTwistBit, kFixed[part], part);
}

uint32_t AddTwisted(uint32_t a, uint32_t b, int part) {
  const uint32_t twist = (a ^ b) & kTwistBit;
  if (part >= kResidues) {
    return AddPart(a & ~kTwistBit, b & ~kTwistBit, part) | twist;
  }
  if (twist && (a & ~kTwistBit) == 0) return b;
  if (twist && (b & ~kTwistBit) == 0) return a;
  if (twist) return AddPart(UntwistedPart(a, part), UntwistedPart(b, part), part);
  const uint32_t sum = AddPart(a & ~kTwistBit, b & ~kTwistBit, part);
  return sum ? sum | (a & kTwistBit) : 0;
}

uint32_t MultiplyTwisted(uint32_t a, uint32_t b, int part) {
  const uint32_t twist = (a ^ b) & kTwistBit;
  uint32_t product = MultiplyPart(a & ~kTwistBit, b & ~kTwistBit, part);
  if (part < kResidues && (a & b & kTwistBit)) product = NegatePart(product, part);
  return product || part >= kResidues ? product | twist : 0;
}

// Applies an operation to the parts that both have; if there are none, to residues.
template <typename Plain, typename Twist>
inline Element Combine(const Element& a, const Element& b, Plain plain, Twist twist) {
  const bool twisted = Twisted(a, b);
  Element result;
  for (int i = 0; i < kParts; ++i) {
    if ((a.part[i] | b.part[i]) & kAbsentPart) {
      result.part[i] = kAbsentPart;
    } else {
      result.part[i] = twisted ? twist(a.part[i], b.part[i], i) : plain(a.part[i], b.part[i], i);
    }
  }
  if (result.known() || !a.known() || !b.known()) return result;
  return Combine(WithResidues(a), WithResidues(b), plain, twist);
}

Element InverseByPowers(const Element& a) {
  Element result = a;
  for (int i = 0; i < kParts; ++i) {
    if (a.part[i] & kAbsentPart) continue;
    const uint32_t twist = i < kResidues ? a.part[i] & kTwistBit : 0;
    const uint32_t inverse =
        MontgomeryPower(a.part[i] & ~kTwistBit, InverseExponent(i), i);  // 1 / i = -i
    result.part[i] = (twist ? NegatePart(inverse, i) : inverse) | (inverse ? twist : 0);
  }
  return result;
}

// Keeps the inverses that were computed last: programs divide many numbers by few.
class InversesOfLate {
 public:
  const Element& Of(const Element& a) {
    Entry& entry = entries_[(a.part[0] ^ a.part[2] >> 7) % entries_.size()];
    if (std::memcmp(&entry.of, &a, sizeof a) != 0) entry = {a, InverseByPowers(a)};
    return entry.inverse;
  }

 private:
  struct Entry {
    Element of, inverse;  // at first 0 and 0
  };
  std::array<Entry, 1024> entries_{};
};

uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// Exponents without their twists: a multiple of a logarithm by a fraction has none that is defined,
// and floats have no logarithms of negative numbers.
uint64_t DigestOfExponents(const Element& a) {
  return uint64_t{a.part[kResidues] & ~kTwistBit} << 32 | (a.part[kResidues + 1] & ~kTwistBit);
}

uint64_t Digest(const Element& a) {
  if (!a.has_residues()) return DigestOfExponents(a);
  const Element plain = Untwisted(a);
  return uint64_t{plain.part[0]} << 32 | plain.part[1];
}

// Names of hashes (Hash) that the emulator itself uses.
enum : uint64_t { kExponentsOfResidues = 1, kResiduesOfExponents = 2, kSine = 3, kCosine = 4 };

Element WithExponents(const Element& a) {
  if (a.has_exponents() || !a.known()) return a;
  Element result = Hash(kExponentsOfResidues, a);
  for (int i = 0; i < kResidues; ++i) result.part[i] = a.part[i];
  return result;
}

}  // namespace

Element ElementOfFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const int exponent = static_cast<int>(bits >> 23 & 0xFF);
  const uint32_t fraction = bits & 0x7FFFFF;
  if (exponent == 0xFF) return kUnknownElement;
  if (exponent == 0) return Scaled(fraction, -149, bits >> 31);
  return Scaled(fraction | 0x800000, exponent - 150, bits >> 31);
}

Element ElementOf(double value) {
  const auto rounded = static_cast<float>(value);
  if (rounded == value) return ElementOfFloat(rounded);
  if (!std::isfinite(value)) return kUnknownElement;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);  // in [0.5, 1)
  const auto whole = static_cast<uint64_t>(std::ldexp(fraction, 53));
  const bool negative = value < 0;
  const Element high = Scaled(static_cast<uint32_t>(whole >> 27), exponent - 26, negative);
  return Add(high, Scaled(static_cast<uint32_t>(whole & 0x7FFFFFF), exponent - 53, negative));
}

Element Add(const Element& a, const Element& b) { return Combine(a, b, AddPart, AddTwisted); }

Element Multiply(const Element& a, const Element& b) {
  return Combine(a, b, MultiplyPart, MultiplyTwisted);
}

Element Negate(const Element& a) {
  Element result = a;
  for (int i = 0; i < kParts; ++i) {
    const uint32_t bits = a.part[i] & (kTwistBit | kAbsentPart);
    if (!(bits & kAbsentPart)) result.part[i] = NegatePart(a.part[i] & ~kTwistBit, i) | bits;
  }
  return result;
}

Element Invert(const Element& a) {
  thread_local InversesOfLate inverses;
  return inverses.Of(a);
}

Element Exp2(const Element& a) {
  if (!a.known()) return a;
  const Element x = WithExponents(a);
  Element result = kUnknownElement;
  for (int i = 0; i < kResidues; ++i) {
    const uint32_t exponent = Reduced(x.part[i + kResidues] & ~kTwistBit, i + kResidues);
    const uint32_t power = PowerOfTwo(exponent, i);
    result.part[i] = x.part[i + kResidues] & kTwistBit ? NegatePart(power, i) : power;
  }
  return result;
}

Element Log2(const Element& a) {
  if (!a.known()) return a;
  const Element x = Untwisted(WithResidues(a));
  Element result = kUnknownElement;
  for (int i = 0; i < kResidues; ++i) {
    if (x.part[i] == 0) return kUnknownElement;
    const bool square = IsSquare(x.part[i], i);
    const uint32_t log = DiscreteLog(square ? x.part[i] : NegatePart(x.part[i], i), i);
    const int part = i + kResidues;
    const auto form = static_cast<uint32_t>((uint64_t{log} << 32) % kModuli[part]);
    result.part[part] = form | (square ? 0 : kTwistBit);
  }
  return result;
}

Element Sqrt(const Element& a) {
  if (!a.known()) return a;
  Element x = Untwisted(WithResidues(a));
  for (int i = 0; i < kResidues; ++i) {
    // The power is a root of x or of -x, and an even power of either.
    static_assert((kModuli[0] + 1) % 8 == 0 && (kModuli[1] + 1) % 8 == 0);
    const uint32_t root = MontgomeryPower(x.part[i], (kModuli[i] + 1) / 4, i);
    const bool square = MultiplyPart(root, root, i) == x.part[i];
    x.part[i] = root | (square ? 0 : kTwistBit);
  }
  for (int i = kResidues; i < kParts; ++i) {
    if (x.part[i] & kAbsentPart) continue;
    x.part[i] = MontgomeryPower(x.part[i] & ~kTwistBit, kRootExponent, i);
  }
  return x;
}

Element Tanh(const Element& a) {
  const Element twice = Multiply(a, Multiply(ElementOfFloat(2), ElementOfConstant(M_LOG2E)));
  const Element power = Exp2(twice), one = ElementOfFloat(1);
  return Multiply(Subtract(power, one), Invert(Add(power, one)));
}

Element Sine(const Element& a) { return Hash(kSine, a); }

Element Cosine(const Element& a) { return Hash(kCosine, a); }

Element Hash(uint64_t name, const Element& a) {
  if (!a.known()) return a;
  Element result;
  uint64_t state = Mix(Digest(a) ^ Mix(name));
  for (int i = 0; i < kParts; ++i) {
    state = Mix(state);
    result.part[i] = static_cast<uint32_t>(state % kModuli[i]);
  }
  return result;
}

Element Untwisted(const Element& a) {
  Element result = a;
  for (int i = 0; i < kResidues; ++i) {
    if (!(a.part[i] & kAbsentPart)) result.part[i] = UntwistedPart(a.part[i], i);
  }
  return result;
}

Element WithResidues(const Element& a) {
  if (a.has_residues() || !a.known()) return a;
  Element result = Hash(kResiduesOfExponents, a);
  for (int i = kResidues; i < kParts; ++i) result.part[i] = a.part[i];
  return result;
}

bool SameElement(const Element& a, const Element& b) {
  if (!a.known() || !b.known()) return a.known() == b.known();
  if (a.has_residues() != b.has_residues()) {
    if (!a.has_exponents() || !b.has_exponents())
      return SameElement(WithResidues(a), WithResidues(b));
    return DigestOfExponents(a) == DigestOfExponents(b);
  }
  return Digest(a) == Digest(b);
}

bool ElementBefore(const Element& a, const Element& b) { return Digest(a) < Digest(b); }

}  // namespace tilelang::emulator
