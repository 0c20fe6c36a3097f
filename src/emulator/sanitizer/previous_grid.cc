#include "emulator/sanitizer/previous_grid.h"

#include <algorithm>
#include <bit>

namespace tilelang::emulator {
namespace {

// The bytes of a line of the host that lie in one of the ranges.
uint64_t Mapped(const std::vector<HostRange>& ranges, uintptr_t line) {
  uint64_t bytes = 0;
  for (const HostRange& range : ranges) {
    const uintptr_t begin = std::max(range.begin, line);
    const uintptr_t end = std::min(range.end, line + GridShadow::kLineBytes);
    if (begin >= end) continue;
    const uint64_t ones = ~uint64_t{0} >> (GridShadow::kLineBytes - (end - begin));
    bytes |= ones << (begin - line);
  }
  return bytes;
}

}  // namespace

bool PreviousGrid::Overwritten(const GlobalMemory& memory) const {
  const std::vector<HostRange> ranges = memory.HostRanges();
  bool found = false;
  footprint_->VisitStored(
      [&](uintptr_t host, uint64_t bytes, const HostBytes&, const HostBytes& after) {
        const uint8_t* now = reinterpret_cast<const uint8_t*>(host);
        for (bytes &= Mapped(ranges, host); bytes && !found; bytes &= bytes - 1) {
          const int i = std::countr_zero(bytes);
          found = now[i] != after[i];
        }
      });
  return found;
}

void PreviousGrid::Withdraw(const GlobalMemory& memory) {
  const std::vector<HostRange> ranges = memory.HostRanges();
  footprint_->VisitStored(
      [&](uintptr_t host, uint64_t bytes, const HostBytes& before, const HostBytes& after) {
        uint8_t* now = reinterpret_cast<uint8_t*>(host);
        bytes &= Mapped(ranges, host);
        if (bytes == 0) return;
        CopyBytes(before.data(), bytes, now);
        withdrawn_.push_back({now, bytes, &after});
      });
}

void PreviousGrid::End() {
  for (const Store& store : withdrawn_) CopyBytes(store.values->data(), store.bytes, store.host);
  withdrawn_.clear();
}

}  // namespace tilelang::emulator
