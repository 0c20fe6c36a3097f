// Registers that hold what a load found in shared memory that nothing has written.
#ifndef TILELANG_EMULATOR_SANITIZER_UNDEFINED_VALUES_H_
#define TILELANG_EMULATOR_SANITIZER_UNDEFINED_VALUES_H_

#include <cstdint>
#include <unordered_map>

#include "emulator/core/op.h"

namespace tilelang::emulator {

// Of one warp. Compilers load early and drop the value where the program does not want it, so the
// warning "uninitialised-shared" waits until a value is used: stored, compared, or given to other
// lanes. What is computed from it is undefined, too.
class UndefinedValues {
 public:
  // `op` loads such a value into a lane's register.
  void Mark(const Op& op, uint32_t slot, int lane, uint64_t address);
  // To be called before `op` executes for the lanes of `mask`.
  void Check(const Warp& warp, const Op& op, uint32_t mask);

 private:
  struct Value {
    uint32_t lanes = 0;
    const Op* load = nullptr;
    uint64_t address = 0;
  };

  std::unordered_map<uint32_t, Value> values_;  // by slot
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_SANITIZER_UNDEFINED_VALUES_H_
