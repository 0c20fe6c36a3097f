// All that is known of the registers of one warp beyond their values.
#ifndef TILELANG_EMULATOR_SANITIZER_WARP_CHECKS_H_
#define TILELANG_EMULATOR_SANITIZER_WARP_CHECKS_H_

#include <optional>

#include "emulator/core/machine.h"
#include "emulator/core/register_checks.h"
#include "emulator/sanitizer/pending_loads.h"
#include "emulator/sanitizer/undefined_values.h"
#include "emulator/sanitizer/wgmma_registers.h"

namespace tilelang::emulator {

class WarpChecks : public RegisterChecks {
 public:
  explicit WarpChecks(const Warp& warp);
  // The warp's, made when first asked for.
  static WarpChecks& Of(Warp& warp);

  void Before(const Warp& warp, const Op& op, uint32_t lanes) override;
  void After(const Warp& warp, const Op& op, uint32_t lanes) override;
  void LoadsUndefined(const Op& op, uint32_t slot, int lane, uint64_t address,
                      bool shared) override;
  bool IsUnwritten(uint32_t slot, int lane) const override;

  // The warp executes a tcgen05.ld; see PendingLoads.
  void TensorLoad(const PendingLoads::Step& step) { pending_loads_->Issue(step); }
  UndefinedValues& undefined_values() { return undefined_values_; }
  // Followed from the warp's first wgmma instruction on.
  WgmmaRegisters& OfWgmma(const Warp& warp);

 private:
  std::optional<PendingLoads> pending_loads_;  // of kernels with tcgen05.ld
  std::optional<WgmmaRegisters> wgmma_;
  UndefinedValues undefined_values_;
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_SANITIZER_WARP_CHECKS_H_
