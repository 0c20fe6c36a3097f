// Registers that a kernel may read before it has written them.
#ifndef TILELANG_EMULATOR_CORE_UNWRITTEN_REGISTERS_H_
#define TILELANG_EMULATOR_CORE_UNWRITTEN_REGISTERS_H_

#include <vector>

#include "emulator/core/kernel.h"

namespace tilelang::emulator {

// Fills `kernel->unwritten` with the declared registers that some path reads before it has written
// them, and marks the instructions that may see their values (SourceLine::sees_unwritten). A write
// under a guard does not count, so a path that is never taken may be among them. Leaves kernels
// with calls of functions alone, and ignores predicates.
void FindUnwrittenRegisters(Kernel* kernel, const std::vector<UnwrittenRegister>& declared);

// The index of the first instruction that reads one of the registers found.
uint32_t FirstReader(const Kernel& kernel, uint32_t slot);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_CORE_UNWRITTEN_REGISTERS_H_
