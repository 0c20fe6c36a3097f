// Every access to emulated memory as checkers see it, and the hook by which they see it.
#ifndef TILELANG_EMULATOR_CORE_ACCESS_H_
#define TILELANG_EMULATOR_CORE_ACCESS_H_

#include <cstdint>

#include "emulator/base/types.h"

namespace tilelang::emulator {

class Cta;
struct Op;

// kLoad: a read into registers; where nothing was written, the values are undefined.
// kProbe: a read of bytes that no instruction uses; they must exist, and that is all.
enum class AccessKind : uint8_t { kRead, kWrite, kAtomic, kLoad, kProbe };
// The path of an access to memory: the PTX proxies, and the pipes of tensor memory.
enum class Proxy : uint8_t { kGeneric, kAsync, kTensorCore, kTensorMemory };

// The issuer of an access: enough to name thread and line later, cheap to copy into a pending
// operation.
struct Issuer {
  const Cta* cta = nullptr;
  const Op* op = nullptr;
  int warp = -1;
  int lane = -1;
};

enum class Storage : uint8_t { kGlobal, kShared, kTensor, kLocal, kParam, kConst };

struct Access {
  Storage storage = Storage::kGlobal;
  AccessKind kind = AccessKind::kRead;
  Proxy proxy = Proxy::kGeneric;
  const char* engine = "thread";  // "tma", "tensor-core", "cp.async", ...
  const Cta* owner = nullptr;     // whose shared or tensor memory
  // Global: virtual address. Shared: offset in the CTA's window. Tensor: lane << 16 | column.
  uint64_t address = 0;
  uint32_t bytes = 0;
  Issuer issuer;
  const uint8_t* value = nullptr;  // of a plain store, if known
};

// Kinds of ordering that a happens-before checker needs to know of.
enum class SyncEvent : uint8_t {
  kBarrierArrive,
  kBarrierPass,  // named barrier: address = id
  kMbarrierArrive,
  kMbarrierPass,  // address = shared offset
  kFence,
  kProxyFence,
  kInitFence,  // fence.mbarrier_init
  kAsyncIssue,
  kAsyncComplete,
  kWaitGroup,
  kWarpSync,      // lanes of a warp met; address = their mask
  kPreviousGrid,  // has ended, as far as the thread is concerned
  kDependents,    // of this grid may begin, as far as the CTA is concerned
};

// A load or store of a warp to global memory, or to its own CTA's shared memory: `bytes` bytes at
// each active lane's address; for shared memory its low 24 bits are the offset.
struct WarpAccess {
  Storage storage = Storage::kShared;
  AccessKind kind = AccessKind::kRead;
  Issuer issuer;  // lane: not set
  uint32_t mask = 0;
  uint32_t bytes = 0;
  const uint64_t* addresses = nullptr;
  bool contiguous = false;          // all lanes are active, each `bytes` after the one before
  const uint8_t* values = nullptr;  // of a plain store: lane i's bytes at i * bytes; null: unknown
};

// The `address` of barrier events is the id of a named barrier, or this for barrier.cluster.
constexpr uint64_t kClusterBarrierId = 16;

class AccessObserver {
 public:
  virtual ~AccessObserver() = default;
  virtual void OnWarpAccess(const WarpAccess& access) = 0;
  virtual void OnAccess(const Access& access) = 0;
  virtual void OnSync(SyncEvent event, uint64_t address, const Issuer& issuer) = 0;
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_CORE_ACCESS_H_
