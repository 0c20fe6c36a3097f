// Services of the control-flow family that decoding itself needs.
#ifndef TILELANG_EMULATOR_CORE_CONTROL_HANDLERS_H_
#define TILELANG_EMULATOR_CORE_CONTROL_HANDLERS_H_

#include <string>
#include <vector>

#include "emulator/core/kernel.h"
#include "emulator/core/op.h"
#include "emulator/ptx/ast.h"

namespace tilelang::emulator {

class FunctionDecoder;

Handler ExitHandler();
// Handlers for functions that are not inlined. The first one needs a CallSite.
Handler CallHandler();
Handler ReturnHandler();
Handler BranchHandler();
// The successors of an instruction in a kernel without calls.
struct Successors {
  bool jumps = false;  // it is a branch or an exit
  bool next = true;    // by the instruction after it
  std::vector<uint32_t> targets;
};
Successors SuccessorsOf(const Op& op);
bool ParseSpecial(const std::string& name, Special* special);
// Clocks and timers: their value depends on when they are read.
bool IsDynamicSpecial(const std::string& name);
// Emits an instruction that reads the clock into `slot`.
void EmitDynamicSpecial(FunctionDecoder& function, const std::string& name, uint32_t slot, int bits,
                        const ptx::Instruction& instruction);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_CORE_CONTROL_HANDLERS_H_
