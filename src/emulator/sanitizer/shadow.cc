#include "emulator/sanitizer/shadow.h"

#include <algorithm>

namespace tilelang::emulator {
namespace {

bool Ordered(const Epoch& earlier, const Touch& touch) {
  return earlier.actor == touch.in_order_with ||
         touch.knowledge->happened.At(earlier.actor) >= earlier.step;
}

bool Conflicts(const Epoch& earlier, const Touch& touch) {
  return earlier.exists() && (earlier.bytes & touch.self.bytes) != 0 && !Ordered(earlier, touch);
}

}  // namespace

Hazard TouchGranule(Granule& granule, const Touch& touch) {
  const Epoch& writer = granule.writer;
  Hazard hazard;
  if (Conflicts(writer, touch)) {
    hazard = {touch.write ? HazardKind::kWriteAfterWrite : HazardKind::kReadAfterWrite, writer};
  } else if (!touch.write && !touch.self.generic && writer.exists() && writer.generic &&
             (writer.bytes & touch.self.bytes) != 0 &&
             touch.knowledge->fenced.At(writer.actor) < writer.step) {
    hazard = {HazardKind::kProxy, writer};
  } else if (touch.write && Conflicts(granule.thread_reader, touch)) {
    hazard = {HazardKind::kWriteAfterRead, granule.thread_reader};
  } else if (touch.write && Conflicts(granule.engine_reader, touch)) {
    hazard = {HazardKind::kWriteAfterRead, granule.engine_reader};
  }
  if (touch.write) {
    granule.writer = touch.self;
    granule.thread_reader = Epoch();
    granule.engine_reader = Epoch();
  } else if (touch.self.generic) {
    granule.thread_reader = touch.self;
  } else {
    granule.engine_reader = touch.self;
  }
  return hazard;
}

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
