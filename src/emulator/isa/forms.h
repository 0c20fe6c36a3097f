// Which modifiers and types an instruction may carry together, as the rows have it.
#ifndef TILELANG_EMULATOR_ISA_FORMS_H_
#define TILELANG_EMULATOR_ISA_FORMS_H_

#include <string>

#include "emulator/isa/family.h"
#include "emulator/ptx/ast.h"

namespace tilelang::emulator {

// What is wrong with the modifiers and types of the family's instruction for sm_100a: "" if
// nothing, or if its row has no forms (its decode function checks them alone). PTX ISA,
// "Instruction Set"; in doubt as ptxas has it.
std::string FormMismatch(const ptx::Instruction& instruction, const isa::Family& family);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ISA_FORMS_H_
