// The lint "ld-before-wait": registers whose tcgen05.ld has not been waited for.
#ifndef TILELANG_EMULATOR_SANITIZER_PENDING_LOADS_H_
#define TILELANG_EMULATOR_SANITIZER_PENDING_LOADS_H_

#include <cstdint>
#include <unordered_map>

#include "emulator/core/op.h"

namespace tilelang::emulator {

// Registers of one warp that a tcgen05.ld writes and that no tcgen05.wait::ld has made defined.
// Hardware delivers them by its scoreboard, but the PTX ISA defines them after the wait only.
// Moves pass the mark on, because compilers copy registers before the wait.
class PendingLoads {
 public:
  // To be called before `op` executes. Reports "ld-before-wait" when it reads such a register,
  // unless it only moves it.
  void Check(const Warp& warp, const Op& op);

 private:
  std::unordered_map<uint32_t, uint32_t> loads_;  // register -> source index of its load
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_SANITIZER_PENDING_LOADS_H_
