// Powers of residues and exponents; see field.h.
#ifndef TILELANG_EMULATOR_ALGEBRA_RESIDUE_H_
#define TILELANG_EMULATOR_ALGEBRA_RESIDUE_H_

#include <cstdint>

#include "emulator/algebra/field.h"

namespace tilelang::emulator {

// Returns base to the power of the exponent, modulo a modulus. All are below 2^31.
constexpr uint64_t PowerOf(uint64_t base, uint64_t exponent, uint64_t modulus) {
  uint64_t result = 1 % modulus;
  for (; exponent; exponent >>= 1, base = base * base % modulus) {
    if (exponent & 1) result = result * base % modulus;
  }
  return result;
}

// The order of 2 modulo each prime is the product of these two primes.
constexpr uint32_t kFactors[kResidues][2] = {{21317, 25183}, {21019, 25541}};
static_assert(kFactors[0][0] * kFactors[0][1] == kModuli[2] && 2 * kModuli[2] + 1 == kModuli[0]);
static_assert(kFactors[1][0] * kFactors[1][1] == kModuli[3] && 2 * kModuli[3] + 1 == kModuli[1]);

// The exponent of the power that stands for a square root. No formula finds square roots here, so
// the power is not a root; it is a function that respects products.
constexpr uint64_t kRootExponent = 178942237;

// base^exponent, in Montgomery form as `base`.
inline uint32_t MontgomeryPower(uint32_t base, uint64_t exponent, int part) {
  auto result = static_cast<uint32_t>((uint64_t{1} << 32) % kModuli[part]);
  for (; exponent; exponent >>= 1) {
    if (exponent & 1) result = Reduced(uint64_t{result} * base, part);
    base = Reduced(uint64_t{base} * base, part);
  }
  return result;
}

// The power that inverts: of exponents modulo each factor, so that one that it divides gives 0.
constexpr uint64_t InverseExponent(int part) {
  if (part < kResidues) return kModuli[part] - 2;
  const uint32_t* factors = kFactors[part - kResidues];
  return uint64_t{factors[0] - 1} * (factors[1] - 1) - 1;
}

// Returns whether a residue that is not 0 is a square.
inline bool IsSquare(uint32_t residue, int part) {
  const auto one = static_cast<uint32_t>((uint64_t{1} << 32) % kModuli[part]);
  return MontgomeryPower(residue, (kModuli[part] - 1) / 2, part) == one;
}

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ALGEBRA_RESIDUE_H_
