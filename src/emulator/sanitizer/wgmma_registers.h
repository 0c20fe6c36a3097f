// Registers of one warp that wgmma accumulates into or reads A from: which of them operations in
// flight use, and whether wgmma.fence orders other uses of them.
#ifndef TILELANG_EMULATOR_SANITIZER_WGMMA_REGISTERS_H_
#define TILELANG_EMULATOR_SANITIZER_WGMMA_REGISTERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/core/op.h"

namespace tilelang::emulator {

// The registers of one wgmma.mma_async.
struct WgmmaRegisterUse {
  const std::vector<uint32_t>& accumulators;
  const std::vector<uint32_t>& fragments;
  const std::vector<std::string>& names;  // of the accumulators, then of the fragments
  int n;                                  // tells shapes apart, with the type of D and A
  uint32_t group;                         // the wgmma-group that it will be in, from 1 on
};

// Reports "missing-wait" and "missing-wgmma-fence".
class WgmmaRegisters {
 public:
  explicit WgmmaRegisters(const Warp& warp);
  // Must be called before each instruction is executed. The accesses of wgmma itself do not count.
  void Check(const Warp& warp, const Op& op);
  void Issue(const Warp& warp, const Op& op, const WgmmaRegisterUse& use);
  // wgmma.fence orders the accesses before it.
  void Fence() { ++fences_; }
  void Commit(uint32_t group) { committed_ = group; }
  // All groups up to `group` are complete.
  void Wait(uint32_t group) { complete_ = group > complete_ ? group : complete_; }

 private:
  enum class Role : uint8_t { kAccumulator, kFragment };
  // Times are numbers of fences executed before, plus one; 0: never.
  struct Register {
    uint32_t accessed = 0;  // last by a thread, and by which instruction
    uint32_t written = 0;
    const Op* access = nullptr;
    uint32_t issued = 0;  // last used by this mma_async
    const Op* mma = nullptr;
    const std::string* name = nullptr;
    uint32_t group = 0;
    int n = 0;
    Role role = Role::kAccumulator;
  };

  Register& At(uint32_t slot) { return registers_[slot / 32]; }
  void CheckInFlight(const Warp& warp, const Register& entry, const char* verb) const;
  void Use(const Warp& warp, const Op& op, const WgmmaRegisterUse& use, uint32_t slot, Role role,
           const std::string& name);
  void ReportFence(const Warp& warp, const std::string& what) const;

  std::vector<Register> registers_;  // by slot
  uint32_t fences_ = 0;
  uint32_t committed_ = 0;
  uint32_t complete_ = 0;
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_SANITIZER_WGMMA_REGISTERS_H_
