// Shadow of shared and tensor memory: the last writer and readers of every granule.
#ifndef TILELANG_EMULATOR_SANITIZER_SHADOW_H_
#define TILELANG_EMULATOR_SANITIZER_SHADOW_H_

#include <cstdint>
#include <vector>

#include "emulator/memory/access.h"
#include "emulator/sanitizer/clock.h"

namespace tilelang::emulator {

// A step of an actor, and the instruction behind it for messages.
struct Epoch {
  uint32_t step = 0;
  uint32_t op = 0;  // index of the instruction in the kernel
  ActorId actor = kNoActor;
  uint8_t bytes = 0xF;   // which bytes of a shared granule
  bool generic = false;  // through the generic proxy

  bool exists() const { return actor != kNoActor; }
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
};

inline bool Ordered(const Epoch& earlier, const Touch& touch) {
  return earlier.actor == touch.in_order_with ||
         touch.knowledge->happened.At(earlier.actor) >= earlier.step;
}

inline bool Conflicts(const Epoch& earlier, const Touch& touch) {
  return earlier.exists() && (earlier.bytes & touch.self.bytes) != 0 && !Ordered(earlier, touch);
}

inline bool OwnOrNone(const Epoch& earlier, const Touch& touch) {
  return !earlier.exists() || earlier.actor == touch.in_order_with;
}

// Checks `touch` against one granule and records it there.
inline Hazard TouchGranule(Granule& granule, const Touch& touch) {
  const Epoch& writer = granule.writer;
  Hazard hazard;
  if (touch.self.generic && OwnOrNone(writer, touch)) {  // the usual case
    if (!touch.write) {
      granule.thread_reader = touch.self;
      return hazard;
    }
    if (OwnOrNone(granule.thread_reader, touch) && OwnOrNone(granule.engine_reader, touch)) {
      granule.writer = touch.self;
      return hazard;
    }
  }
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

// Four-byte granules of the shared memory of one CTA.
class SharedShadow {
 public:
  static constexpr uint32_t kGranuleBytes = 4;
  explicit SharedShadow(uint32_t bytes) : granules_((bytes + 19) / kGranuleBytes) {}
  // `hazard_at` receives the address of the first conflict.
  Hazard TouchRange(uint32_t offset, uint32_t bytes, Touch touch, uint32_t* hazard_at);

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
