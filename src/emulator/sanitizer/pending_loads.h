// Registers whose tcgen05.ld has not been waited for.
#ifndef TILELANG_EMULATOR_SANITIZER_PENDING_LOADS_H_
#define TILELANG_EMULATOR_SANITIZER_PENDING_LOADS_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "emulator/core/kernel.h"
#include "emulator/sanitizer/clock.h"

namespace tilelang::emulator {

class Sanitizer;

// Registers of one warp that a tcgen05.ld writes and that no tcgen05.wait::ld has made defined.
// Hardware delivers them by its scoreboard, but the PTX ISA defines them after the wait only.
// Moves pass the mark on, because compilers copy registers before the wait. Lanes that are apart
// use the same registers at different times, so a mark holds for some of them.
//
// The scoreboard also ends a load: once all of its registers have been read or overwritten, the
// sanitizer is told that the load has happened. A move is no read, because a compiler can remove
// it; the copy is then as good as the register itself.
class PendingLoads {
 public:
  // `lint`: report "ld-before-wait" for uses of such registers.
  PendingLoads(const Kernel& kernel, bool lint)
      : lint_(lint), registers_(kernel.file_bytes / 32 + 1) {}
  // A step of an actor of the sanitizer.
  struct Step {
    Sanitizer* sanitizer = nullptr;
    ActorId actor = kNoActor;
    uint32_t step = 0;
  };
  // The load that the warp is executing is this step. Later loads are later steps.
  void Issue(const Step& step) { issued_ = step; }
  // Must be called before the lanes execute `op`. Reports "ld-before-wait" when `op` reads such a
  // register, unless it only moves it.
  void Check(const Warp& warp, const Op& op, uint32_t lanes) const;
  // Must be called when the lanes have executed `op`: an instruction that waits for lanes of the
  // warp has no effect before.
  void Executed(const Warp& warp, const Op& op, uint32_t lanes);

 private:
  struct Load {
    uint32_t lanes = 0;
    uint32_t op = 0;  // index of the instruction
  };

  // A load, and how many of its registers no instruction has used.
  struct InFlight {
    Step step;
    size_t unused = 0;
  };
  // A register of a load.
  struct Origin {
    uint32_t step = 0;
    uint32_t slot = 0;
  };
  struct Register {
    uint32_t unused = 0;          // since the load of this step
    std::vector<Origin> origins;  // what it holds
  };

  void Lint(const Warp& warp, const Op& op, uint32_t lanes);
  // Follows the registers of loads in flight through an instruction.
  void Follow(const Warp& warp, const SourceLine& source, uint32_t lanes);
  InFlight* Find(uint32_t step);  // nullptr: it is over
  void Use(const Origin& origin);
  void Overwrite(uint32_t slot);
  void Begin(const OperandUse& use);
  void End(const Warp& warp, uint32_t lanes);
  Register& At(uint32_t slot) { return registers_[slot / 32]; }

  void Set(uint32_t slot, uint32_t lanes, uint32_t op);
  void Clear(uint32_t slot, uint32_t lanes);
  // Returns the lanes of `lanes` for which the instruction reads such a register.
  Load Read(const OperandUse& use, uint32_t lanes) const;

  bool lint_;
  std::unordered_map<uint32_t, Load> loads_;  // by register
  std::optional<Step> issued_;
  std::deque<InFlight> in_flight_;   // consecutive steps
  std::vector<Register> registers_;  // by slot
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_SANITIZER_PENDING_LOADS_H_
