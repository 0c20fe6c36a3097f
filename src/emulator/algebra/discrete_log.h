// Powers of 2 modulo the two primes, and their logarithms; see field.h.
#ifndef TILELANG_EMULATOR_ALGEBRA_DISCRETE_LOG_H_
#define TILELANG_EMULATOR_ALGEBRA_DISCRETE_LOG_H_

#include <cstdint>

namespace tilelang::emulator {

// 2^exponent modulo prime `index`, in Montgomery form. The exponent is below 2^30 and not in that
// form.
uint32_t PowerOfTwo(uint32_t exponent, int index);
// The exponent of a square modulo prime `index`, which is in Montgomery form and not 0; the result
// is not in that form.
uint32_t DiscreteLog(uint32_t square, int index);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ALGEBRA_DISCRETE_LOG_H_
