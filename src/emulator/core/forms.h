// Which modifiers and types an instruction may carry together.
#ifndef TILELANG_EMULATOR_CORE_FORMS_H_
#define TILELANG_EMULATOR_CORE_FORMS_H_

#include <cstddef>
#include <string>

#include "emulator/ptx/ast.h"

namespace tilelang::emulator {

// What is wrong with the instruction's modifiers and types for sm_100a: "" if nothing, or if its
// family has no table (and checks them alone). The family's name are the opcode and the first
// `in_name` modifiers. PTX ISA, "Instruction Set"; in doubt as
// ptxas has it.
std::string FormMismatch(const ptx::Instruction& instruction, size_t in_name);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_CORE_FORMS_H_
