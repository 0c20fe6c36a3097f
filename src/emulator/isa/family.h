// Finds the row of an instruction.
#ifndef TILELANG_EMULATOR_ISA_FAMILY_H_
#define TILELANG_EMULATOR_ISA_FAMILY_H_

#include <cstddef>
#include <span>
#include <string_view>

#include "emulator/isa/row.h"
#include "emulator/ptx/ast.h"

namespace tilelang::emulator::isa {

struct Family {
  std::string_view name;
  const Row* row = nullptr;
  size_t modifiers = 0;  // of its name, after the opcode
  size_t number = 0;     // its place in Families()
};

std::span<const Family> Families();
// The family of that name; nullptr if no row has it.
const Family* FindFamily(std::string_view name);
// The family with the longest name that opcode and modifiers begin with; nullptr if there is none.
const Family* FamilyOf(const ptx::Instruction& instruction);

}  // namespace tilelang::emulator::isa

#endif  // TILELANG_EMULATOR_ISA_FAMILY_H_
