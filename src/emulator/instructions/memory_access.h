// Addresses of a whole warp at once: the fast paths of loads and stores.
#ifndef TILELANG_EMULATOR_INSTRUCTIONS_MEMORY_ACCESS_H_
#define TILELANG_EMULATOR_INSTRUCTIONS_MEMORY_ACCESS_H_

#include <cstdint>
#include <cstring>

#include "emulator/core/machine.h"

namespace tilelang::emulator {

struct WarpAddresses {
  uint64_t value[kLanes];
};

[[gnu::always_inline]] inline void LoadAddresses(const Warp& w, const AddressOperand& operand,
                                                 WarpAddresses* out) {
  uint64_t offset = static_cast<uint64_t>(operand.offset);
  if (operand.wide) {
    const uint64_t* base = w.Reg<uint64_t>(operand.slot);
    for (int i = 0; i < kLanes; ++i) out->value[i] = base[i] + offset;
  } else {
    const uint32_t* base = w.Reg<uint32_t>(operand.slot);
    uint32_t small = static_cast<uint32_t>(offset);
    for (int i = 0; i < kLanes; ++i) out->value[i] = base[i] + small;
  }
}

// Describes the addresses of the active lanes together.
struct AddressRange {
  uint64_t low = ~uint64_t{0}, high = 0, bits = 0;
  bool contiguous = false;  // all lanes active, each `bytes` after the one before
};

[[gnu::always_inline]] inline AddressRange RangeOf(const WarpAddresses& addresses, uint32_t mask,
                                                   uint32_t bytes) {
  AddressRange range;
  if (mask == kAllLanes) {
    uint64_t difference = 0;
    for (int i = 0; i < kLanes; ++i) {
      difference |= addresses.value[i] ^ (addresses.value[0] + static_cast<uint64_t>(i) * bytes);
    }
    if (difference == 0) {
      range.low = range.bits = addresses.value[0];
      range.high = addresses.value[31];
      range.contiguous = range.low <= range.high;
      range.bits |= range.high;
      return range;
    }
  }
  ForEachLane(mask, [&](int i) {
    uint64_t address = addresses.value[i];
    range.low = address < range.low ? address : range.low;
    range.high = address > range.high ? address : range.high;
    range.bits |= address;
  });
  return range;
}

// Host address of virtual address 0 of the range's buffer if every lane's access of `bytes` bytes
// is in bounds and aligned; nullptr when lanes must be looked at one by one.
struct FastBase {
  uint8_t* host = nullptr;     // of range.low
  uint8_t* written = nullptr;  // which bytes were written, from range.low on; null: not followed
  bool shared = false;
};

inline FastBase FindFast(Warp& w, Space space, const AddressRange& range, uint32_t bytes,
                         bool write) {
  FastBase base;
  Cluster& cluster = w.cta.cluster;
  if (range.bits & (bytes - 1)) return base;
  uint64_t span = range.high - range.low + bytes;
  if (space == Space::kGlobal || (space == Space::kGeneric && (range.low >> kBufferShift))) {
    base.host = cluster.launch.global.Find(range.low, span, write);
    if (base.host) base.written = cluster.launch.global.WrittenAt(range.low);
    return base;
  }
  uint64_t low = range.low, high = range.high;
  if (space == Space::kGeneric) {
    if ((low & ~uint64_t{0xFFFFFFFF}) != kSharedWindow ||
        (high & ~uint64_t{0xFFFFFFFF}) != kSharedWindow) {
      return base;
    }
    low &= 0xFFFFFFFF;
    high &= 0xFFFFFFFF;
  } else if (space != Space::kShared) {
    return base;
  }
  if ((low >> 24) != w.cta.rank || (high >> 24) != w.cta.rank) return base;
  SharedMemory& shared = w.cta.shared;
  uint32_t offset = static_cast<uint32_t>(low) & 0xFFFFFF;
  if (!shared.Contains(offset, span)) return base;
  base.host = shared.at(offset);
  base.written = shared.written(offset);
  base.shared = true;
  return base;
}

// One lane's store, wherever it goes.
inline void StoreValue(Warp& w, int lane, Space space, uint64_t address, const uint8_t* value,
                       uint32_t bytes) {
  w.stored = value;
  uint8_t* p = ThreadAccess(w, lane, space, address, bytes, bytes, AccessKind::kWrite);
  w.stored = nullptr;
  std::memcpy(p, value, bytes);
}

// Tells the observer, if there is one, of an access that took the fast path.
inline void Observe(Warp& w, const FastBase& base, const WarpAddresses& addresses,
                    const AddressRange& range, uint32_t mask, uint32_t bytes, AccessKind kind,
                    const uint8_t* values = nullptr) {
  AccessObserver* observer = w.cta.cluster.launch.observer;
  if (!observer) return;
  const Storage storage = base.shared ? Storage::kShared : Storage::kGlobal;
  observer->OnWarpAccess(
      {storage, kind, w.Here(-1), mask, bytes, addresses.value, range.contiguous, values});
}

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_INSTRUCTIONS_MEMORY_ACCESS_H_
