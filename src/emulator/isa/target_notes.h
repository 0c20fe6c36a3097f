// Knows which targets have an instruction: the "Target ISA Notes" of the PTX ISA, by the rows.
#ifndef TILELANG_EMULATOR_ISA_TARGET_NOTES_H_
#define TILELANG_EMULATOR_ISA_TARGET_NOTES_H_

#include <string>

#include "emulator/isa/row.h"
#include "emulator/ptx/ast.h"

namespace tilelang::emulator {

// Returns what the target lacks for this instruction of `row`, such as "sm_90 or higher", or "" if
// it has it.
std::string MissingTarget(const ptx::Instruction& instruction, const isa::Row& row,
                          const Target& target);
// Returns what GPUs of the device's kind lack although ptxas assembles it, or "".
std::string MissingOnDevice(const ptx::Instruction& instruction, const Target& device);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ISA_TARGET_NOTES_H_
