// The four warps that execute wgmma instructions together.
#ifndef TILELANG_EMULATOR_ASYNC_WARPGROUP_H_
#define TILELANG_EMULATOR_ASYNC_WARPGROUP_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "emulator/async/wgmma_mma.h"
#include "emulator/core/machine.h"

namespace tilelang::emulator {

// Follows the wgmma instructions of a warpgroup. Warps do not wait for each other at them, but
// must all execute the same ones: `.aligned`. An instruction is complete, and takes its place among
// the pending operations, when the last of the four has executed it.
class Warpgroup {
 public:
  Warpgroup(Cta& cta, uint32_t first_warp) : cta_(cta), first_warp_(first_warp) {}

  // One wgmma instruction, made by the first warp that comes to it.
  struct Step {
    const Op* op = nullptr;
    uint32_t executed = 0;            // bit for each warp
    std::shared_ptr<WgmmaPlan> plan;  // of mma_async
    bool complete() const { return executed == (1u << kWarpgroupWarps) - 1; }
  };

  // The warp executes `op`, its next wgmma instruction. The step is valid until the next call.
  // Fails with "divergence" when the warpgroup lacks warps or threads, or another of its warps
  // executes something else in this place.
  Step& Enter(Warp& warp, const Op& op);

  // wgmma-groups that a warp has committed, and that all four have.
  uint32_t& committed(const Warp& warp) { return committed_[warp.index - first_warp_]; }
  uint32_t committed_by_all() const;
  // The last mma_async of a warp that is in no group yet, or null.
  const Op*& uncommitted(const Warp& warp) { return uncommitted_[warp.index - first_warp_]; }

  std::array<Warp*, kWarpgroupWarps> warps() const;
  // Returns the issuer under which the pending operations of the warpgroup are recorded.
  Issuer Owner(const Op& op) const { return {&cta_, &op, static_cast<int>(first_warp_), 0}; }
  // Fails when an instruction was not executed by all warps and nobody is left to do so.
  void CheckComplete() const;
  // Describes which warps have not executed which instruction, for deadlock reports.
  std::string DescribeMissing() const;

 private:
  void CheckThreads(const Warp& warp) const;
  std::string NameOf(const Op& op) const;
  std::string Missing(const Step& step) const;

  Cta& cta_;
  const uint32_t first_warp_;
  std::deque<Step> steps_;   // not complete, or complete since the last call of Enter
  uint64_t first_step_ = 0;  // number of the first of them
  std::array<uint64_t, kWarpgroupWarps> next_{};
  std::array<uint32_t, kWarpgroupWarps> committed_{};
  std::array<const Op*, kWarpgroupWarps> uncommitted_{};
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ASYNC_WARPGROUP_H_
