// Checks which registers and constants an operand of a type takes: PTX ISA, "Operand Type Checking"
// and "Constants", and as ptxas decides where it is silent.
#ifndef TILELANG_EMULATOR_ISA_OPERAND_RULES_H_
#define TILELANG_EMULATOR_ISA_OPERAND_RULES_H_

#include <cstdint>
#include <string>

#include "emulator/base/types.h"
#include "emulator/ptx/ast.h"

namespace tilelang::emulator {

// Returns what is wrong with a register declared as `declared` where `type` is expected, or "".
// `any_width` allows wider registers (ld, st, cvt).
std::string RegisterMismatch(const std::string& name, Type declared, Type type, bool any_width);
// The same for a constant.
std::string ConstantMismatch(const ptx::Operand& operand, Type type);
// Bits of a constant that ConstantMismatch allows, as a register of `type` holds it.
uint64_t ConstantBits(const ptx::Operand& operand, Type type);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ISA_OPERAND_RULES_H_
