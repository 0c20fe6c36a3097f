#include "emulator/sanitizer/shadow.h"

#include <algorithm>

namespace tilelang::emulator {
Hazard SharedShadow::TouchRange(uint32_t offset, uint32_t bytes, Touch touch, uint32_t* hazard_at) {
  Hazard found;
  const uint32_t end = offset + bytes;
  for (uint32_t at = offset; at < end;) {
    const uint32_t granule = at / kGranuleBytes;
    const uint32_t stop = std::min(end, (granule + 1) * kGranuleBytes);
    const uint32_t first = at % kGranuleBytes;
    touch.self.bytes = static_cast<uint8_t>(((1u << (stop - at)) - 1) << first);
    const Hazard hazard = TouchGranule(granules_[granule], touch);
    if (hazard.kind != HazardKind::kNone && found.kind == HazardKind::kNone) {
      found = hazard;
      *hazard_at = at;
    }
    at = stop;
  }
  return found;
}

Hazard TensorShadow::TouchCells(int lane, int lanes, int column, int columns, const Touch& touch,
                                int* at_lane, int* at_column) {
  Hazard found;
  for (int group = lane / kLanesPerGranule; group <= (lane + lanes - 1) / kLanesPerGranule;
       ++group) {
    for (int c = column; c < column + columns; ++c) {
      const Hazard hazard = TouchGranule(granules_[group * 512 + c], touch);
      if (hazard.kind == HazardKind::kNone || found.kind != HazardKind::kNone) continue;
      found = hazard;
      *at_lane = std::max(lane, group * kLanesPerGranule);
      *at_column = c;
    }
  }
  return found;
}

}  // namespace tilelang::emulator
