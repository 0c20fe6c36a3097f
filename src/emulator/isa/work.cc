#include "emulator/isa/work.h"

#include <string>
#include <string_view>

#include "emulator/base/types.h"

namespace tilelang::emulator::isa {
namespace {

using C = InstructionClass;

C BySpace(const ptx::Instruction& instruction) {
  for (const std::string& modifier : instruction.modifiers) {
    const std::string_view space = std::string_view(modifier).substr(0, modifier.find("::"));
    if (space == "global") return C::kGlobalMemory;
    if (space == "shared") return C::kSharedMemory;
    if (space == "local") return C::kLocalMemory;
    if (space == "param" || space == "const") return C::kConstantMemory;
  }
  return C::kGenericMemory;
}

C ByTypes(const ptx::Instruction& instruction) {
  for (const std::string& modifier : instruction.modifiers) {
    if (IsFloat(ParseType(modifier))) return C::kFloat;
  }
  return C::kInteger;
}

}  // namespace

InstructionClass ClassOf(const ptx::Instruction& instruction, const Row& row) {
  if (row.kind.by == ClassRule::By::kSpace) return BySpace(instruction);
  return row.kind.by == ClassRule::By::kTypes ? ByTypes(instruction) : row.kind.fixed;
}

Effect EffectOf(const Row& row, InstructionClass kind) {
  return kind == C::kLocalMemory || kind == C::kConstantMemory ? Effect::kNone : row.effect;
}

}  // namespace tilelang::emulator::isa
