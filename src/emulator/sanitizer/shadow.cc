#include "emulator/sanitizer/shadow.h"

#include <algorithm>
#include <cstring>

namespace tilelang::emulator {
namespace {

// In place of touch.self with other bytes and lane: separate stores, which later loads can forward.
void Record(Epoch& epoch, const Touch& touch, uint8_t bytes, uint8_t lane) {
  epoch.step = touch.self.step;
  epoch.op = touch.self.op;
  epoch.actor = touch.self.actor;
  epoch.bytes = bytes;
  epoch.lane = lane;
}

// Unordered stores of one value are no hazard; whose it is cannot be told any more.
bool WritesTheSame(const Touch& touch, uint32_t at, uint32_t bytes, const Hazard& hazard,
                   Granule& granule) {
  const bool same = hazard.kind == HazardKind::kWriteAfterWrite && touch.values &&
                    !(hazard.earlier.bytes & Epoch::kStrong) && hazard.earlier.generic() &&
                    std::memcmp(touch.values + at, touch.memory + at, bytes) == 0;
  if (same) granule.writer = Epoch();
  return same;
}

}  // namespace

Hazard SharedShadow::TouchRange(uint32_t offset, uint32_t bytes, Touch touch, uint32_t* hazard_at) {
  Hazard found;
  const uint32_t end = offset + bytes;
  const uint8_t flags = touch.self.bytes & ~Epoch::kBytes;
  for (uint32_t at = offset; at < end;) {
    const uint32_t granule = at / kGranuleBytes;
    const uint32_t stop = std::min(end, (granule + 1) * kGranuleBytes);
    const uint32_t mask = ((1u << (stop - at)) - 1) << (at % kGranuleBytes);
    touch.self.bytes = static_cast<uint8_t>(flags | mask);
    const Hazard hazard = TouchGranule(granules_[granule], touch);
    if (hazard.kind != HazardKind::kNone && found.kind == HazardKind::kNone &&
        !WritesTheSame(touch, at - offset, stop - at, hazard, granules_[granule])) {
      found = hazard;
      *hazard_at = at;
    }
    at = stop;
  }
  return found;
}

Hazard SharedShadow::TouchLanes(uint32_t offset, uint32_t lane_bytes, Touch touch,
                                uint32_t* hazard_at) {
  if (lane_bytes < kGranuleBytes) return TouchRange(offset, lane_bytes * 32, touch, hazard_at);
  Hazard found;
  const uint8_t bytes = touch.self.bytes | Epoch::kBytes;
  const bool lanes = touch.met != nullptr;
  Granule* granule = &granules_[offset / kGranuleBytes];
  for (uint8_t lane = 0; lane < 32; ++lane) {
    for (uint32_t at = 0; at < lane_bytes; at += kGranuleBytes, ++granule) {
      const uint8_t own = lanes ? lane : kAnyLane;
      if (FollowsItself(*granule, touch, own)) {
        if (touch.write) granule->thread_reader.actor = kNoActor;
        Record(touch.write ? granule->writer : granule->thread_reader, touch, bytes, own);
        continue;
      }
      Touch careful = touch;
      careful.self.bytes = bytes;
      careful.self.lane = own;
      const Hazard hazard = TouchGranule(*granule, careful);
      if (hazard.kind == HazardKind::kNone || found.kind != HazardKind::kNone) continue;
      const uint32_t place = lane * lane_bytes + at;
      if (WritesTheSame(touch, place, kGranuleBytes, hazard, *granule)) continue;
      found = hazard;
      *hazard_at = offset + place;
    }
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
