// Declares what the core needs of the checks that follow values through the registers of a warp.
// The sanitizer's room derives from this class and makes the objects.
#ifndef TILELANG_EMULATOR_CORE_REGISTER_CHECKS_H_
#define TILELANG_EMULATOR_CORE_REGISTER_CHECKS_H_

#include <cstdint>
#include <memory>

namespace tilelang::emulator {

class Warp;
struct Op;

class RegisterChecks {
 public:
  virtual ~RegisterChecks() = default;
  // Called before `op` executes for `lanes`.
  virtual void Before(const Warp& warp, const Op& op, uint32_t lanes) = 0;
  // Called after `op` has executed. An instruction that waits for lanes of the warp has no effect
  // before that.
  virtual void After(const Warp& warp, const Op& op, uint32_t lanes) = 0;
  // `op` loads into a lane's register what nothing has written, in shared or global memory.
  virtual void LoadsUndefined(const Op& op, uint32_t slot, int lane, uint64_t address,
                              bool shared) = 0;
  // Returns whether a lane's register holds the value of a register that nothing has written.
  virtual bool IsUnwritten(uint32_t slot, int lane) const = 0;
};

// Makes the checks of a warp at its start.
std::unique_ptr<RegisterChecks> MakeRegisterChecks(const Warp& warp);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_CORE_REGISTER_CHECKS_H_
