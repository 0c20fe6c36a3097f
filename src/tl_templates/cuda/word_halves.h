// Words of 32 bits in which two 16-bit numbers are made.
//
// The C++ compiler would compute each number in 16 bits by itself. It does not see through these
// functions, so that what makes a word makes both numbers at once, and ptxas finds them side by
// side, as the instructions on pairs (add.f16x2) take them.
#pragma once

namespace tl {

// Returns the number of type T in the lower bits of a word, and in the upper ones.
template <typename T>
TL_DEVICE T lower_half(uint32_t word) {
  uint16_t bits;
  asm("{\n\t.reg .b16 upper;\n\tmov.b32 {%0, upper}, %1;\n\t}" : "=h"(bits) : "r"(word));
  return T::from_bits(bits);
}
template <typename T>
TL_DEVICE T upper_half(uint32_t word) {
  uint16_t bits;
  asm("{\n\t.reg .b16 lower;\n\tmov.b32 {lower, %0}, %1;\n\t}" : "=h"(bits) : "r"(word));
  return T::from_bits(bits);
}

// Bits of a, b and c by a table of what becomes of them. ptxas joins two operations by itself only
// where one of b and c is no constant.
template <int kTable>
TL_DEVICE uint32_t lop3(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(result) : "r"(a), "r"(b), "r"(c), "n"(kTable));
  return result;
}

}  // namespace tl
