#include "emulator/core/instruction_class.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "emulator/base/types.h"

namespace tilelang::emulator {
namespace {

using C = InstructionClass;

bool Has(const ptx::Instruction& instruction, std::string_view modifier) {
  const auto& all = instruction.modifiers;
  return std::find(all.begin(), all.end(), modifier) != all.end();
}

C MemoryClass(const ptx::Instruction& instruction) {
  for (const std::string& modifier : instruction.modifiers) {
    const std::string_view space = std::string_view(modifier).substr(0, modifier.find("::"));
    if (space == "global") return C::kGlobalMemory;
    if (space == "shared") return C::kSharedMemory;
    if (space == "local") return C::kLocalMemory;
    if (space == "param" || space == "const") return C::kConstantMemory;
  }
  return C::kGenericMemory;
}

C TensorClass(const ptx::Instruction& instruction) {
  const std::string& what = instruction.modifiers.empty() ? "" : instruction.modifiers[0];
  if (what == "mma" || what == "cp" || what == "shift" || what == "commit") return C::kTensorCore;
  return what.starts_with("fence") ? C::kBarrier : C::kTensorMemory;
}

C ArithmeticClass(const ptx::Instruction& instruction) {
  for (const std::string& modifier : instruction.modifiers) {
    if (IsFloat(ParseType(modifier))) return C::kFloat;
  }
  return C::kInteger;
}

// Opcodes whose class no modifier changes; all others are arithmetic, by their types.
const std::unordered_map<std::string_view, C>& Fixed() {
  static const std::unordered_map<std::string_view, C> fixed = {{"cvt", C::kConversion},
                                                                {"mov", C::kMove},
                                                                {"selp", C::kMove},
                                                                {"slct", C::kMove},
                                                                {"cvta", C::kMove},
                                                                {"shfl", C::kWarp},
                                                                {"vote", C::kWarp},
                                                                {"match", C::kWarp},
                                                                {"redux", C::kWarp},
                                                                {"elect", C::kWarp},
                                                                {"activemask", C::kWarp},
                                                                {"movmatrix", C::kWarp},
                                                                {"ldmatrix", C::kSharedMemory},
                                                                {"stmatrix", C::kSharedMemory},
                                                                {"cp", C::kAsyncCopy},
                                                                {"tensormap", C::kAsyncCopy},
                                                                {"mma", C::kTensorCore},
                                                                {"wmma", C::kTensorCore},
                                                                {"wgmma", C::kTensorCore},
                                                                {"barrier", C::kBarrier},
                                                                {"mbarrier", C::kBarrier},
                                                                {"fence", C::kBarrier},
                                                                {"membar", C::kBarrier},
                                                                {"bra", C::kControl},
                                                                {"brx", C::kControl},
                                                                {"call", C::kControl},
                                                                {"ret", C::kControl},
                                                                {"exit", C::kControl},
                                                                {"trap", C::kControl},
                                                                {"brkpt", C::kControl},
                                                                {"nanosleep", C::kControl},
                                                                {"griddepcontrol", C::kControl},
                                                                {"setmaxnreg", C::kControl},
                                                                {"pmevent", C::kControl},
                                                                {"createpolicy", C::kControl}};
  return fixed;
}

}  // namespace

InstructionClass ClassOf(const ptx::Instruction& instruction) {
  const std::string& opcode = instruction.opcode;
  for (const char* memory :
       {"ld", "ldu", "st", "atom", "red", "prefetch", "prefetchu", "discard", "applypriority"}) {
    if (opcode == memory) return MemoryClass(instruction);
  }
  if (opcode == "tcgen05") return TensorClass(instruction);
  if (opcode == "bar") return Has(instruction, "warp") ? C::kWarp : C::kBarrier;
  const auto found = Fixed().find(opcode);
  return found != Fixed().end() ? found->second : ArithmeticClass(instruction);
}

const char* ClassName(InstructionClass kind) {
  static constexpr const char* kNames[kInstructionClasses] = {"integer",
                                                              "float",
                                                              "conversion",
                                                              "move",
                                                              "warp",
                                                              "global memory",
                                                              "shared memory",
                                                              "local memory",
                                                              "constant memory",
                                                              "generic memory",
                                                              "asynchronous copy",
                                                              "tensor memory",
                                                              "tensor core",
                                                              "barrier",
                                                              "control"};
  return kNames[static_cast<int>(kind)];
}

}  // namespace tilelang::emulator
