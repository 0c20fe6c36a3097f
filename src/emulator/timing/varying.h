// Finds the values that differ between the lanes of a warp, or between the clusters of a launch.
#ifndef TILELANG_EMULATOR_TIMING_VARYING_H_
#define TILELANG_EMULATOR_TIMING_VARYING_H_

#include <vector>

#include "emulator/core/kernel.h"

namespace tilelang::emulator {

// Registers that may hold different values, whatever way the program takes: results of operands
// that do.
class Varying {
 public:
  // `special(s)`: whether that special register differs; `source(pc)`: whether results of that
  // instruction do, whatever its operands are.
  template <typename IsSpecial, typename IsSource>
  Varying(const Kernel& kernel, const IsSpecial& special, const IsSource& source)
      : kernel_(kernel), specials_(kernel.file_bytes + 1), registers_(kernel.file_bytes + 1) {
    for (const SlotInit& init : kernel.specials) specials_[init.slot] = special(init.special);
    std::vector<bool> sources;
    for (uint32_t pc = 0; pc < kernel.code.size(); ++pc) sources.push_back(source(pc));
    Spread(sources);
  }

  bool Has(uint32_t slot) const { return registers_[slot & ~1u]; }
  // An operand of the instruction does, its guard aside.
  bool Reads(const Op& op) const;

 private:
  void Spread(const std::vector<bool>& sources);
  // Marks its results. Whether that is new.
  bool Mark(const Op& op);

  const Kernel& kernel_;
  std::vector<bool> specials_, registers_;  // by slot
};

// All clusters execute the same instructions, for lanes of the same number: what branches and
// guards ask for depends on the threads, the parameters and the shape of the launch alone, not on
// where a cluster lies in the grid nor on values of memory. False when that is not known.
bool ClustersAreUniform(const Kernel& kernel);

// Returns whether the control flow of the program, or the addresses of its accesses, may depend on
// a value that it loads or that an engine computes. Products of tensor cores pass through memory,
// so whether the value is such a product is not known.
bool MemoryDecides(const Kernel& kernel);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_TIMING_VARYING_H_
