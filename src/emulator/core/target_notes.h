// Which targets have an instruction: the "Target ISA Notes" of the PTX ISA.
#ifndef TILELANG_EMULATOR_CORE_TARGET_NOTES_H_
#define TILELANG_EMULATOR_CORE_TARGET_NOTES_H_

#include <string>

#include "emulator/ptx/ast.h"

namespace tilelang::emulator {

// A compute capability as in sm_90, sm_100f and sm_100a. What only `a` has is in no other target;
// what `f` has is in `a` as well.
struct Target {
  enum Feature { kBase, kFamily, kArchitecture };
  int sm = 0;
  Feature feature = kBase;

  // Later architectures keep what earlier ones have, but for what belongs to one alone.
  bool Has(const Target& needed) const {
    return (needed.feature == kArchitecture ? sm == needed.sm : sm >= needed.sm) &&
           feature >= needed.feature;
  }
};

// sm is 0 if the name is none of a target.
Target ParseTarget(const std::string& name);

class Module;
// EmulatorError("target") unless a device, "sm_100a", runs what was made for the module's target.
void CheckRunsOn(const Module& module, const std::string& device);

// What the target lacks for this instruction: "sm_90 or higher", or "" if it has it.
std::string MissingTarget(const ptx::Instruction& instruction, const Target& target);
// What GPUs of the device's kind lack though ptxas assembles it, or "".
std::string MissingOnDevice(const ptx::Instruction& instruction, const Target& device);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_CORE_TARGET_NOTES_H_
