#include "emulator/core/access.h"

#include <cstring>

#include "emulator/core/machine.h"
#include "emulator/memory/hex.h"

namespace tilelang::emulator {
namespace {

const char* Verb(AccessKind kind) {
  switch (kind) {
    case AccessKind::kRead:
    case AccessKind::kLoad:
    case AccessKind::kProbe:
      return "read";
    case AccessKind::kWrite:
      return "write";
    default:
      return "atomic operation";
  }
}

bool IsRead(AccessKind kind) { return kind != AccessKind::kWrite && kind != AccessKind::kAtomic; }

[[noreturn]] void FailAlign(const Issuer& issuer, const char* space, uint64_t address,
                            uint32_t bytes, uint32_t align, AccessKind kind) {
  Fail(issuer, "misaligned",
       std::string("misaligned ") + Verb(kind) + " of " + std::to_string(bytes) + " bytes in " +
           space + " memory: the address " + Hex(address) + " must be a multiple of " +
           std::to_string(align),
       address);
}

void Observe(Cluster& cluster, const Issuer& issuer, Storage storage, const Cta* owner,
             uint64_t address, uint32_t bytes, AccessKind kind, Proxy proxy, const char* engine) {
  Access access;
  access.storage = storage;
  access.kind = IsRead(kind) ? AccessKind::kRead : kind;
  access.proxy = proxy;
  access.engine = engine;
  access.owner = owner;
  access.address = address;
  access.bytes = bytes;
  access.issuer = issuer;
  if (issuer.warp >= 0) access.value = issuer.cta->warps[issuer.warp]->stored;
  cluster.launch.observer->OnAccess(access);
}

// Returns whether [address, address + bytes) lies in `size` bytes from `base` on. Addresses may
// wrap around.
bool Inside(uint64_t address, uint32_t bytes, uint64_t base, uint64_t size) {
  const uint64_t offset = address - base;
  return offset <= size && bytes <= size - offset;
}

uint8_t* LocalAccess(Warp& warp, int lane, uint64_t address, uint32_t bytes, uint32_t align,
                     AccessKind kind) {
  const uint64_t size = warp.local_bytes(lane);
  if (!Inside(address, bytes, kLocalBase, size)) {
    Fail(warp.Here(lane), "out-of-bounds",
         std::string(Verb(kind)) + " of " + std::to_string(bytes) +
             " bytes outside of the thread's local memory of " + std::to_string(size) + " bytes",
         address, "local memory");
  }
  if (address % align) FailAlign(warp.Here(lane), "local", address, bytes, align, kind);
  return warp.local(lane) + (address - kLocalBase);
}

uint8_t* ParamAccess(Warp& warp, int lane, uint64_t address, uint32_t bytes, uint32_t align,
                     AccessKind kind) {
  if (address >= kLocalBase) return LocalAccess(warp, lane, address, bytes, align, kind);
  Launch& launch = warp.cta.cluster.launch;
  if (!IsRead(kind)) {
    Fail(warp.Here(lane), "out-of-bounds", "kernel parameters are read-only", address,
         "kernel parameters");
  }
  if (!Inside(address, bytes, 0, launch.params.size())) {
    Fail(warp.Here(lane), "out-of-bounds",
         "read of " + std::to_string(bytes) + " bytes past the end of the kernel parameters of " +
             std::to_string(launch.params.size()) + " bytes",
         address, "kernel parameters");
  }
  if (address % align) FailAlign(warp.Here(lane), "parameter", address, bytes, align, kind);
  return launch.params.data() + address;
}

uint8_t* ConstAccess(Warp& warp, int lane, uint64_t address, uint32_t bytes, uint32_t align,
                     AccessKind kind) {
  const std::vector<uint8_t>& bank = warp.cta.cluster.kernel().module->constant_bank;
  if (!IsRead(kind) || !Inside(address, bytes, kConstBase, bank.size())) {
    Fail(warp.Here(lane), "out-of-bounds",
         std::string(Verb(kind)) + " of " + std::to_string(bytes) +
             " bytes outside of the constant bank of " + std::to_string(bank.size()) + " bytes",
         address, "constant bank");
  }
  if (address % align) FailAlign(warp.Here(lane), "constant", address, bytes, align, kind);
  return const_cast<uint8_t*>(bank.data()) + (address - kConstBase);
}

}  // namespace

uint8_t* SharedAccess(Cluster& cluster, const Issuer& issuer, uint32_t address, uint32_t bytes,
                      uint32_t align, AccessKind kind, Proxy proxy, const char* engine) {
  Cta* owner = cluster.SharedOwner(address);
  uint32_t offset = address & 0xFFFFFF;
  if (!owner || !owner->shared.Contains(offset, bytes)) {
    std::string size =
        owner ? std::to_string(owner->shared.size() - kSharedReserved) : std::string("no");
    Fail(issuer, "out-of-bounds",
         std::string(Verb(kind)) + " of " + std::to_string(bytes) +
             " bytes outside of the CTA's shared memory, which has " + size +
             " bytes from address " + Hex((address & 0xFF000000u) + kSharedReserved),
         address, "shared memory");
  }
  if (offset & (align - 1)) FailAlign(issuer, "shared", address, bytes, align, kind);
  if (kind == AccessKind::kProbe) return owner->shared.at(offset);
  if (kind == AccessKind::kWrite) {
    owner->shared.MarkWritten(offset, bytes);
  } else if (kind != AccessKind::kLoad && !owner->shared.IsWritten(offset, bytes)) {
    WarnShared(issuer, std::string(Verb(kind)) + " of shared memory that nothing has written",
               address);
    if (kind == AccessKind::kAtomic) owner->shared.MarkWritten(offset, bytes);
  }
  if (cluster.launch.observer) {
    Observe(cluster, issuer, Storage::kShared, owner, offset, bytes, kind, proxy, engine);
  }
  return owner->shared.at(offset);
}

uint8_t* GlobalAccess(Cluster& cluster, const Issuer& issuer, uint64_t address, uint32_t bytes,
                      uint32_t align, AccessKind kind, Proxy proxy, const char* engine) {
  GlobalMemory& memory = cluster.launch.global;
  uint8_t* host = memory.Find(address, bytes, !IsRead(kind));
  if (!host) {
    bool read_only = memory.Find(address, bytes, false) != nullptr;
    Fail(issuer, "out-of-bounds",
         std::string(Verb(kind)) + " of " + std::to_string(bytes) +
             (read_only ? " bytes in a read-only buffer: " : " bytes out of bounds: ") +
             memory.Describe(address),
         address, memory.NameOf(address));
  }
  if (address & (align - 1)) FailAlign(issuer, "global", address, bytes, align, kind);
  if (uint8_t* written = IsRead(kind) ? nullptr : memory.WrittenAt(address)) {
    if (kind == AccessKind::kAtomic && std::memchr(written, 0, bytes)) {
      WarnMemory(issuer, false,
                 "atomic operation on an output that was allocated for a kernel, '" +
                     memory.NameOf(address) + "', and that nothing has written",
                 address);
    }
    std::memset(written, 1, bytes);
  }
  if (cluster.launch.observer && kind != AccessKind::kProbe) {
    Observe(cluster, issuer, Storage::kGlobal, nullptr, address, bytes, kind, proxy, engine);
  }
  return host;
}

uint8_t* ThreadAccess(Warp& warp, int lane, Space space, uint64_t address, uint32_t bytes,
                      uint32_t align, AccessKind kind) {
  Cluster& cluster = warp.cta.cluster;
  if (space == Space::kGeneric) {
    uint64_t window = address & ~uint64_t{0xFFFFFFFF};
    space = window == kSharedWindow  ? Space::kShared
            : window == kLocalWindow ? Space::kLocal
            : window == kParamWindow ? Space::kParam
            : window == kConstWindow ? Space::kConst
                                     : Space::kGlobal;
    if (space != Space::kGlobal) address &= 0xFFFFFFFF;
  }
  switch (space) {
    case Space::kShared:
      return SharedAccess(cluster, warp.Here(lane), static_cast<uint32_t>(address), bytes, align,
                          kind);
    case Space::kLocal:
      return LocalAccess(warp, lane, address, bytes, align, kind);
    case Space::kParam:
      return ParamAccess(warp, lane, address, bytes, align, kind);
    case Space::kConst:
      return ConstAccess(warp, lane, address, bytes, align, kind);
    default:
      return GlobalAccess(cluster, warp.Here(lane), address, bytes, align, kind);
  }
}

bool IsShared(Space space, uint64_t address) {
  const bool in_window = (address & ~uint64_t{0xFFFFFFFF}) == kSharedWindow;
  return space == Space::kShared || (space == Space::kGeneric && in_window);
}

bool IsDefined(Warp& warp, Space space, uint64_t address, uint32_t bytes) {
  if (!IsShared(space, address)) {
    if (space != Space::kGlobal && space != Space::kGeneric) return true;
    const uint8_t* written = warp.cta.cluster.launch.global.WrittenAt(address);
    return !written || std::memchr(written, 0, bytes) == nullptr;
  }
  const Cta* owner = warp.cta.cluster.SharedOwner(static_cast<uint32_t>(address));
  return !owner || owner->shared.IsWritten(static_cast<uint32_t>(address) & 0xFFFFFF, bytes);
}

uint32_t ToSharedAddress(Warp& warp, int lane, Space space, uint64_t address) {
  if (space == Space::kShared) return static_cast<uint32_t>(address);
  // The units that take such addresses look at the low half only, and compilers rely on it: they
  // pass shared addresses that were widened, not converted.
  uint64_t window = address & ~uint64_t{0xFFFFFFFF};
  if (window == kSharedWindow || window == 0) return static_cast<uint32_t>(address);
  Fail(warp.Here(lane), "out-of-bounds",
       "the generic address " + Hex(address) + " is not in shared memory", address);
}

}  // namespace tilelang::emulator
