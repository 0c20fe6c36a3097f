// The lint "ld-before-wait": registers whose tcgen05.ld has not been waited for.
#ifndef TILELANG_EMULATOR_SANITIZER_PENDING_LOADS_H_
#define TILELANG_EMULATOR_SANITIZER_PENDING_LOADS_H_

#include <cstdint>
#include <unordered_map>

#include "emulator/core/kernel.h"

namespace tilelang::emulator {

// Registers of one warp that a tcgen05.ld writes and that no tcgen05.wait::ld has made defined.
// Hardware delivers them by its scoreboard, but the PTX ISA defines them after the wait only.
// Moves pass the mark on, because compilers copy registers before the wait. Lanes that are apart
// use the same registers at different times, so a mark holds for some of them.
class PendingLoads {
 public:
  // To be called before the lanes execute `op`. Reports "ld-before-wait" when it reads such a
  // register, unless it only moves it.
  void Check(const Warp& warp, const Op& op, uint32_t lanes) const;
  // To be called when they have executed it: an instruction that waits for lanes of the warp has
  // no effect before.
  void Executed(const Warp& warp, const Op& op, uint32_t lanes);

 private:
  struct Load {
    uint32_t lanes = 0;
    uint32_t source = 0;  // index of the instruction
  };

  void Set(uint32_t slot, uint32_t lanes, uint32_t source);
  void Clear(uint32_t slot, uint32_t lanes);
  // Those of `lanes` for which the instruction reads such a register.
  Load Read(const OperandUse& use, uint32_t lanes) const;

  std::unordered_map<uint32_t, Load> loads_;  // by register
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_SANITIZER_PENDING_LOADS_H_
