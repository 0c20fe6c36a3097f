#include <string_view>

#include "emulator/async/engines.h"
#include "emulator/sanitizer/sanitizer.h"

namespace tilelang::emulator {
namespace {

class Forwarder : public AccessObserver {
 public:
  void OnAccess(const Access& access) override {
    // Engines report their accesses themselves, when they are issued.
    const bool by_thread = access.storage == Storage::kShared && access.issuer.lane >= 0 &&
                           std::string_view(access.engine) == "thread";
    if (by_thread) SanitizerOf(access.issuer).ThreadShared(access);
  }

  void OnWarpAccess(const WarpAccess& access) override {
    SanitizerOf(access.issuer).WarpShared(access);
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
