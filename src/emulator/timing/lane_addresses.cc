#include "emulator/timing/lane_addresses.h"

#include <algorithm>

#include "emulator/core/machine.h"

namespace tilelang::emulator {

std::optional<uint64_t> StepOf(const uint64_t* addresses, uint32_t mask, int bytes) {
  if (mask != kAllLanes) return std::nullopt;
  const uint64_t step = addresses[1] - addresses[0];
  if (step != 0 && step != static_cast<uint64_t>(bytes)) return std::nullopt;
  uint64_t differs = 0;
  for (uint64_t lane = 0; lane < kLanes; ++lane) {
    differs |= addresses[lane] ^ (addresses[0] + lane * step);
  }
  return differs == 0 ? std::optional(step) : std::nullopt;
}

void CollectLines(const uint64_t* addresses, uint32_t mask, int bytes,
                  std::vector<LineAccess>* lines) {
  lines->clear();
  if (const auto step = StepOf(addresses, mask, bytes)) {
    const uint64_t first = addresses[0] / 32;
    const uint64_t last = (addresses[kLanes - 1] + static_cast<uint64_t>(bytes) - 1) / 32;
    for (uint64_t line = first / 4; line <= last / 4; ++line) {
      const uint64_t from = line == first / 4 ? first & 3 : 0, to = line == last / 4 ? last & 3 : 3;
      lines->push_back({line, (2u << to) - (1u << from)});
    }
    return;
  }
  ForEachLane(mask, [&](int lane) {
    const uint64_t first = addresses[lane] / 32;
    const uint64_t last = (addresses[lane] + static_cast<uint64_t>(bytes) - 1) / 32;
    for (uint64_t sector = first; sector <= last; ++sector) {
      const uint32_t bit = 1u << (sector & 3);
      // Neighbouring lanes mostly share the line.
      auto found = std::find_if(lines->rbegin(), lines->rend(),
                                [&](const LineAccess& l) { return l.line == sector / 4; });
      if (found == lines->rend()) {
        lines->push_back({sector / 4, bit});
      } else {
        found->sectors |= bit;
      }
    }
  });
}

}  // namespace tilelang::emulator
