// Checks which modifiers and types an instruction may carry together, by the rows.
#ifndef TILELANG_EMULATOR_ISA_FORMS_H_
#define TILELANG_EMULATOR_ISA_FORMS_H_

#include <string>

#include "emulator/isa/family.h"
#include "emulator/ptx/ast.h"

namespace tilelang::emulator {

// Returns what is wrong with the modifiers and types of the family's instruction for sm_100a.
// Returns "" if nothing is, or if its row has no forms, because its decode function then checks
// them alone. PTX ISA, "Instruction Set"; in doubt as ptxas decides.
std::string FormMismatch(const ptx::Instruction& instruction, const isa::Family& family);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ISA_FORMS_H_
