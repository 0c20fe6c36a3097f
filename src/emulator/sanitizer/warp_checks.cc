#include "emulator/sanitizer/warp_checks.h"

#include "emulator/core/unwritten_marks.h"

namespace tilelang::emulator {

WarpChecks::WarpChecks(const Warp& warp) {
  const Cluster& cluster = warp.cta.cluster;
  const bool lint = cluster.launch.Lint("ld-before-wait");
  if (cluster.kernel().loads_tensor_memory && (lint || cluster.launch.observer)) {
    pending_loads_.emplace(cluster.kernel(), lint);
  }
  if (cluster.launch.observer) undefined_values_.MarkRegisters(cluster.kernel(), kAllLanes);
}

WarpChecks& WarpChecks::Of(Warp& warp) { return static_cast<WarpChecks&>(warp.register_checks()); }

void WarpChecks::Before(const Warp& warp, const Op& op, uint32_t lanes) {
  if (pending_loads_) pending_loads_->Check(warp, op, lanes);
  if (wgmma_) wgmma_->Check(warp, op);
  undefined_values_.Check(warp, op, lanes);
}

void WarpChecks::After(const Warp& warp, const Op& op, uint32_t lanes) {
  if (pending_loads_) pending_loads_->Executed(warp, op, lanes);
  undefined_values_.Executed(warp, op);
}

void WarpChecks::LoadsUndefined(const Op& op, uint32_t slot, int lane, uint64_t address,
                                bool shared) {
  undefined_values_.Mark(op, slot, lane, address, shared);
}

bool WarpChecks::IsUnwritten(uint32_t slot, int lane) const {
  return undefined_values_.IsUnwritten(slot, lane);
}

WgmmaRegisters& WarpChecks::OfWgmma(const Warp& warp) {
  if (!wgmma_) wgmma_.emplace(warp);
  return *wgmma_;
}

std::unique_ptr<RegisterChecks> MakeRegisterChecks(const Warp& warp) {
  return std::make_unique<WarpChecks>(warp);
}

void LoadsUnwritten(Warp& warp, uint32_t slot, int lane, uint8_t mark) {
  UndefinedValues& values = WarpChecks::Of(warp).undefined_values();
  values.MarkUnwritten(warp.cta.cluster.kernel(), slot, lane, mark);
}

uint8_t UnwrittenMark(Warp& warp, uint32_t slot, int lane) {
  return WarpChecks::Of(warp).undefined_values().MarkOf(warp.cta.cluster.kernel(), slot, lane);
}

}  // namespace tilelang::emulator
