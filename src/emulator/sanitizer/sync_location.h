// Tracks what strong writes of one location make known to strong reads of it (PTX ISA, memory
// consistency model: release and acquire patterns).
#ifndef TILELANG_EMULATOR_SANITIZER_SYNC_LOCATION_H_
#define TILELANG_EMULATOR_SANITIZER_SYNC_LOCATION_H_

#include <cstdint>
#include <unordered_map>

#include "emulator/sanitizer/clock.h"

namespace tilelang::emulator {

// A release tells the threads of its scope. The narrower scopes within that one are kept beside it,
// for readers whose own scope is narrower.
struct SyncLocation {
  static constexpr uint64_t kNobody = ~uint64_t{0};

  std::unordered_map<uint64_t, Knowledge> cta;      // by CTA of the grid
  std::unordered_map<uint64_t, Knowledge> cluster;  // by cluster
  GridClock wide;                                   // scopes gpu and sys
  // The warp whose store is the last one. A store of another warp hides what was released before
  // it; an atomic read-modify-write does not.
  uint64_t storer = kNobody;
};

// Locations by address: words of four bytes, or what is smaller than a word.
class SyncLocations {
 public:
  SyncLocation& At(uint64_t address) { return locations_[address]; }
  // nullptr: nothing was made known there.
  SyncLocation* Find(uint64_t address) {
    const auto found = locations_.find(address);
    return found == locations_.end() ? nullptr : &found->second;
  }
  void Erase(uint64_t address) { locations_.erase(address); }

 private:
  std::unordered_map<uint64_t, SyncLocation> locations_;
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_SANITIZER_SYNC_LOCATION_H_
