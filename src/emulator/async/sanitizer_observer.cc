#include <string_view>

#include "emulator/async/engines.h"
#include "emulator/sanitizer/sanitizer.h"

namespace tilelang::emulator {
namespace {

class Forwarder : public AccessObserver {
 public:
  void OnAccess(const Access& access) override {
    const bool by_thread = access.issuer.lane >= 0 && std::string_view(access.engine) == "thread";
    Sanitizer& sanitizer = SanitizerOf(access.issuer);
    if (access.storage == Storage::kGlobal) {
      if (!by_thread) {
        return sanitizer.EngineGlobal(access, Engines::Of(access.issuer.cta->cluster).acting());
      }
      const int lane = access.issuer.lane;
      uint64_t addresses[kLanes];
      addresses[lane] = access.address;
      const uint8_t* values = access.value ? access.value - size_t{access.bytes} * lane : nullptr;
      return sanitizer.WarpGlobal({Storage::kGlobal, access.kind, access.issuer, 1u << lane,
                                   access.bytes, addresses, false, values});
    }
    // Engines report their accesses to shared memory themselves, when they are issued.
    if (access.storage == Storage::kShared && by_thread) sanitizer.ThreadShared(access);
  }

  void OnWarpAccess(const WarpAccess& access) override {
    Sanitizer& sanitizer = SanitizerOf(access.issuer);
    if (access.storage == Storage::kGlobal) return sanitizer.WarpGlobal(access);
    sanitizer.WarpShared(access);
  }

  void OnSync(SyncEvent event, uint64_t address, const Issuer& issuer) override {
    switch (event) {
      case SyncEvent::kBarrierArrive:
      case SyncEvent::kBarrierPass:
        SanitizerOf(issuer).OnBarrier(event, address, issuer);
        break;
      case SyncEvent::kProxyFence:
        SanitizerOf(issuer).ProxyFence(issuer);
        break;
      case SyncEvent::kInitFence:
        SanitizerOf(issuer).InitFence(issuer);
        break;
      case SyncEvent::kFence:
        SanitizerOf(issuer).Fence(issuer);
        break;
      case SyncEvent::kPreviousGrid:
        SanitizerOf(issuer).WaitForPreviousGrid(issuer);
        break;
      case SyncEvent::kDependents:
        SanitizerOf(issuer).LaunchDependents(issuer);
        break;
      case SyncEvent::kWarpSync:
        SanitizerOf(issuer).OnWarpSync(issuer, static_cast<uint32_t>(address));
        break;
      default:
        break;
    }
  }

 private:
  static Sanitizer& SanitizerOf(const Issuer& issuer) {
    return *Engines::Of(issuer.cta->cluster).sanitizer();
  }
};

}  // namespace

AccessObserver* SanitizerObserver() {
  static Forwarder forwarder;
  return &forwarder;
}

}  // namespace tilelang::emulator
