// Names the classes of instructions, by which launches count them.
#ifndef TILELANG_EMULATOR_ISA_INSTRUCTION_CLASS_H_
#define TILELANG_EMULATOR_ISA_INSTRUCTION_CLASS_H_

#include <cstdint>

namespace tilelang::emulator {

enum class InstructionClass : uint8_t {
  kInteger,
  kFloat,
  kConversion,
  kMove,
  kWarp,
  kGlobalMemory,
  kSharedMemory,
  kLocalMemory,
  kConstantMemory,  // kernel parameters, too
  kGenericMemory,   // the space is known at run time only
  kAsyncCopy,
  kTensorMemory,
  kTensorCore,
  kBarrier,
  kControl,
};
constexpr int kInstructionClasses = static_cast<int>(InstructionClass::kControl) + 1;

// "integer", "float", ..., "global memory", ...
const char* ClassName(InstructionClass kind);

// Counts how often something was executed: by warps, and by lanes whose guard was true.
struct InstructionCount {
  uint64_t warps = 0, lanes = 0;
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ISA_INSTRUCTION_CLASS_H_
