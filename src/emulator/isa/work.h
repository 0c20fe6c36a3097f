// Returns what kind of work an instruction is, and what it changes, by its row and its modifiers.
#ifndef TILELANG_EMULATOR_ISA_WORK_H_
#define TILELANG_EMULATOR_ISA_WORK_H_

#include "emulator/isa/row.h"
#include "emulator/ptx/ast.h"

namespace tilelang::emulator::isa {

InstructionClass ClassOf(const ptx::Instruction& instruction, const Row& row);
// Returns the effect of an instruction of that class. Stores to local memory and to parameters of
// calls change nothing that other threads see.
Effect EffectOf(const Row& row, InstructionClass kind);

}  // namespace tilelang::emulator::isa

#endif  // TILELANG_EMULATOR_ISA_WORK_H_
