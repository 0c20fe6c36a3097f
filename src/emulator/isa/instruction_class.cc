#include "emulator/isa/instruction_class.h"

namespace tilelang::emulator {

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
