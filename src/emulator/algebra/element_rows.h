// Arithmetic on runs of elements, such as those of a register in all lanes, in vectors of the host.
//
// Each function does what the function of this name in field.h does, element by element. Results do
// not overlap operands.
#ifndef TILELANG_EMULATOR_ALGEBRA_ELEMENT_ROWS_H_
#define TILELANG_EMULATOR_ALGEBRA_ELEMENT_ROWS_H_

#include "emulator/algebra/field.h"

namespace tilelang::emulator {

void AddRow(const Element* a, const Element* b, int count, Element* results);
void MultiplyRow(const Element* a, const Element* b, int count, Element* results);
void NegateRow(const Element* a, int count, Element* results);
void InvertRow(const Element* a, int count, Element* results);
// Returns the exact values of floats.
void ElementsOfFloats(const float* values, int count, Element* results);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ALGEBRA_ELEMENT_ROWS_H_
