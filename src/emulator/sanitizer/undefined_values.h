// Registers that hold what nothing has written: registers that the program has not written, and
// what a load found in shared memory, or in an output in global memory, that nothing has written.
#ifndef TILELANG_EMULATOR_SANITIZER_UNDEFINED_VALUES_H_
#define TILELANG_EMULATOR_SANITIZER_UNDEFINED_VALUES_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "emulator/core/access.h"
#include "emulator/core/kernel.h"
#include "emulator/core/op.h"

namespace tilelang::emulator {

// Follows the undefined values of one warp. Compilers load early and drop a value that the program
// does not want, so a report waits until the value is used: stored, compared, or given to other
// lanes. A value that is computed from it is undefined, too. Loaded values are the warnings
// "uninitialised-shared" and "uninitialised-global".
//
// Registers are the finding "uninitialised-register". Compilers compare them, merge them with
// others and store them in shared and tensor memory for elements that the program drops later. So
// only three instructions use them: stores and atomics on global memory, and bulk stores of shared
// memory that holds them. Sums and products of floats pass them on, mma and wgmma pass them from
// accumulator to accumulator, and other instructions pass them on if all operands are unwritten.
class UndefinedValues {
 public:
  // `op` loads such a value into a lane's register.
  void Mark(const Op& op, uint32_t slot, int lane, uint64_t address, bool shared);
  // A lane's register gets what shared memory holds of the register of this mark.
  void MarkUnwritten(const Kernel& kernel, uint32_t slot, int lane, uint8_t mark);
  // See UnwrittenMark of core/unwritten_marks.h.
  uint8_t MarkOf(const Kernel& kernel, uint32_t slot, int lane) const;
  // Marks all registers as unwritten, at the start of a thread.
  void MarkRegisters(const Kernel& kernel, uint32_t lanes);
  // Must be called before `op` executes for the lanes of `mask`.
  void Check(const Warp& warp, const Op& op, uint32_t mask);
  // Must be called when `op` has executed. What it copied of an unwritten output is undefined as
  // well, where that is followed. To store what is computed from such an element is a use.
  void Executed(const Warp& warp, const Op& op);
  bool IsUnwritten(uint32_t slot, int lane) const;

 private:
  struct Value {
    uint32_t lanes = 0;
    const Op* load = nullptr;                   // where it is from; or
    const UnwrittenRegister* source = nullptr;  // it is a register's
    uint64_t address = 0;
    bool shared = false;
    bool computed = false;  // arithmetic has made it from a loaded value
  };

  void StoreShared(const Warp& warp, const Op& op, uint32_t slot, const Value& value,
                   uint32_t lanes);
  void Use(const Warp& warp, const Op& op, const Value& value, uint32_t lanes) const;
  uint32_t Store(const Warp& warp, const Op& op, uint32_t slot, uint32_t lanes);
  // Computes the undefined values that `op` makes of loaded values, and reports the ones that it
  // uses.
  Value CheckLoaded(const Warp& warp, const Op& op, uint32_t mask);
  Value CheckRegisters(const Warp& warp, const Op& op, uint32_t mask);
  // Passes the marks of accumulators to the results of mma.
  void Accumulate(const OperandUse& use, uint32_t mask);
  Value* Find(uint32_t slot, bool is_register);
  void Write(uint32_t slot, uint32_t mask, const Value& result);

  // A store of such a value to memory that is followed: the element, where lanes store it, and
  // what its bytes are marked with.
  struct Stored {
    uint32_t element = 0, lanes = 0;
    uint8_t mark = 0;
  };

  std::unordered_map<uint32_t, Value> values_;  // by slot
  std::vector<Stored> stored_;                  // by the instruction that executes
  bool loaded_ = false;                         // one of them has been loaded
};

// Reports that the issuer's instruction uses the value of the register.
void ReportUnwritten(const Issuer& issuer, const UnwrittenRegister& source);
// The register of a mark of shared memory.
const UnwrittenRegister& UnwrittenOf(const Kernel& kernel, uint8_t mark);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_SANITIZER_UNDEFINED_VALUES_H_
