// Shadow of shared and tensor memory: the last writer and readers of every granule.
#ifndef TILELANG_EMULATOR_SANITIZER_SHADOW_H_
#define TILELANG_EMULATOR_SANITIZER_SHADOW_H_

#include <cstdint>
#include <vector>

#include "emulator/memory/access.h"
#include "emulator/sanitizer/clock.h"

namespace tilelang::emulator {

// Lanes of an epoch: 0 to 31, or
constexpr uint8_t kSeveralLanes = 32;  // at least two: none is alone with its access
constexpr uint8_t kAnyLane = 33;       // not followed, or all lanes as one

// A step of an actor, and the instruction behind it for messages.
struct Epoch {
  uint32_t step = 0;
  uint32_t op = 0;  // index of the instruction in the kernel
  ActorId actor = kNoActor;
  uint8_t bytes = 0xF;  // which bytes of a shared granule, with the flags below
  uint8_t lane = kAnyLane;

  static constexpr uint8_t kBytes = 0xF;
  static constexpr uint8_t kGeneric = 0x10;  // through the generic proxy
  static constexpr uint8_t kStrong = 0x20;   // atomic or the like: no race with its like

  bool exists() const { return actor != kNoActor; }
  bool generic() const { return bytes & kGeneric; }
  bool Overlaps(const Epoch& other) const { return bytes & other.bytes & kBytes; }
};

struct Granule {
  Epoch writer;
  Epoch thread_reader;  // the last one only: later readers replace earlier ones
  Epoch engine_reader;
};

enum class HazardKind : uint8_t {
  kNone,
  kReadAfterWrite,
  kWriteAfterWrite,
  kWriteAfterRead,
  kProxy
};

// A conflict of the current access with an earlier one.
struct Hazard {
  HazardKind kind = HazardKind::kNone;
  Epoch earlier;
};

// One access to be checked and recorded.
struct Touch {
  Epoch self;
  const Knowledge* knowledge = nullptr;  // of the issuer, when it issued
  ActorId in_order_with = kNoActor;      // an actor whose earlier steps are ordered by itself
  bool write = false;
  // The step of the warp up to which each of its lanes has met the others; null: not followed.
  const uint32_t* met = nullptr;
  // Of a plain store to shared memory: the bytes to be written, and those that are there; or null.
  const uint8_t* values = nullptr;
  const uint8_t* memory = nullptr;
};

// Whether the lanes of one warp that two accesses come from are one, or have met in between.
inline bool LanesOrdered(const Epoch& earlier, const Touch& touch) {
  const uint8_t lane = touch.self.lane;
  if (lane >= kSeveralLanes || earlier.lane == lane || earlier.lane == kAnyLane) return true;
  return touch.met[lane] >= earlier.step ||
         (earlier.op == touch.self.op && earlier.step == touch.self.step);
}

inline bool Ordered(const Epoch& earlier, const Touch& touch) {
  if (earlier.actor == touch.in_order_with) return LanesOrdered(earlier, touch);
  return touch.knowledge->happened.At(earlier.actor) >= earlier.step;
}

inline bool Conflicts(const Epoch& earlier, const Touch& touch) {
  return earlier.exists() && earlier.Overlaps(touch.self) &&
         !(earlier.bytes & touch.self.bytes & Epoch::kStrong) && !Ordered(earlier, touch);
}

// The epoch to remember for `self` in the place of `before`: lanes that access the same bytes in
// one step are remembered together.
inline Epoch Merged(const Epoch& before, Epoch self, uint8_t several) {
  const bool same = before.actor == self.actor && before.step == self.step &&
                    before.lane != self.lane && before.Overlaps(self);
  if (same) self.lane = several;
  return self;
}

// Whether all that `touch` does is to follow its own lane's earlier accesses: the usual case.
inline bool FollowsItself(const Granule& granule, const Touch& touch, uint8_t lane) {
  const auto mine = [&](const Epoch& earlier) {
    return !earlier.exists() || (earlier.actor == touch.in_order_with && earlier.lane == lane);
  };
  if (!touch.self.generic() || !mine(granule.writer) || granule.engine_reader.exists())
    return false;
  return mine(granule.thread_reader) ||
         (!touch.write && granule.thread_reader.actor != touch.in_order_with);
}

// Checks `touch` against one granule and records it there.
inline Hazard TouchGranule(Granule& granule, const Touch& touch) {
  const Epoch& writer = granule.writer;
  Hazard hazard;
  if (Conflicts(writer, touch)) {
    hazard = {touch.write ? HazardKind::kWriteAfterWrite : HazardKind::kReadAfterWrite, writer};
  } else if (!touch.write && !touch.self.generic() && writer.exists() && writer.generic() &&
             writer.Overlaps(touch.self) &&
             touch.knowledge->fenced.At(writer.actor) < writer.step) {
    hazard = {HazardKind::kProxy, writer};
  } else if (touch.write && Conflicts(granule.thread_reader, touch)) {
    hazard = {HazardKind::kWriteAfterRead, granule.thread_reader};
  } else if (touch.write && Conflicts(granule.engine_reader, touch)) {
    hazard = {HazardKind::kWriteAfterRead, granule.engine_reader};
  }
  if (touch.write) {
    granule.writer = Merged(writer, touch.self, kAnyLane);
    granule.thread_reader = Epoch();
    granule.engine_reader = Epoch();
  } else if (touch.self.generic()) {
    granule.thread_reader = Merged(granule.thread_reader, touch.self, kSeveralLanes);
  } else {
    granule.engine_reader = touch.self;
  }
  return hazard;
}

// Four-byte granules of the shared memory of one CTA.
class SharedShadow {
 public:
  static constexpr uint32_t kGranuleBytes = 4;
  explicit SharedShadow(uint32_t bytes) : granules_((bytes + 19) / kGranuleBytes) {}
  // `hazard_at` receives the address of the first conflict.
  Hazard TouchRange(uint32_t offset, uint32_t bytes, Touch touch, uint32_t* hazard_at);
  // The same for a whole warp: lane i touches the i-th `lane_bytes` bytes.
  Hazard TouchLanes(uint32_t offset, uint32_t lane_bytes, Touch touch, uint32_t* hazard_at);

 private:
  std::vector<Granule> granules_;
};

// Tensor memory in granules of one column of 16 lanes: every access of warps and of the tensor core
// covers whole ones, but for tcgen05.cp.4x256b and disabled lanes.
class TensorShadow {
 public:
  static constexpr int kLanesPerGranule = 16;
  TensorShadow() : granules_(8 * 512) {}
  Hazard TouchCells(int lane, int lanes, int column, int columns, const Touch& touch, int* at_lane,
                    int* at_column);

 private:
  std::vector<Granule> granules_;
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_SANITIZER_SHADOW_H_
