// Shadow of shared and tensor memory: the last writer and readers of every granule.
#ifndef TILELANG_EMULATOR_SANITIZER_SHADOW_H_
#define TILELANG_EMULATOR_SANITIZER_SHADOW_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "emulator/core/access.h"
#include "emulator/sanitizer/clock.h"

namespace tilelang::emulator {

// Lanes of an epoch: 0 to 31, or
constexpr uint8_t kSeveralLanes = 32;  // at least two: none is alone with its access
constexpr uint8_t kAnyLane = 33;       // not followed, or all lanes as one
constexpr uint8_t kMixedLanes = 34;    // several, by more than one instruction

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
  static constexpr uint8_t kWrite = 0x40;    // among the displaced accesses: a write
  static constexpr uint8_t kOwn = 0x80;      // by a thread to its CTA's memory, or to tensor memory

  bool exists() const { return actor != kNoActor; }
  bool generic() const { return bytes & kGeneric; }
  bool write() const { return bytes & kWrite; }
  bool Overlaps(const Epoch& other) const { return bytes & other.bytes & kBytes; }
  bool CoveredBy(const Epoch& other) const { return !(bytes & kBytes & ~other.bytes); }
  bool operator==(const Epoch&) const = default;
};

// Sets of accesses, each kept once: neighbouring granules mostly share theirs. Set 0 is empty.
class EpochSets {
 public:
  // The set with `epoch` in it, in place of earlier accesses by the same actor and lane that it
  // covers.
  uint32_t Add(uint32_t set, const Epoch& epoch);
  // The set without what touches only bytes of `epoch`.
  uint32_t Without(uint32_t set, const Epoch& epoch);
  const std::vector<Epoch>& Of(uint32_t set) const { return sets_[set]; }

 private:
  uint32_t Find(std::vector<Epoch> set);

  std::vector<std::vector<Epoch>> sets_{1};
  std::unordered_map<uint64_t, std::vector<uint32_t>> by_hash_{};
  // The last changes, which the next granule usually repeats.
  struct Change {
    uint32_t before = 0, after = 0;
    Epoch epoch;
  };
  Change added_, removed_;
};

// The last accesses to a granule. Accesses that later ones displaced without being ordered after
// them go to a set.
struct Granule {
  Epoch writer;
  Epoch thread_reader;
  Epoch engine_reader;
  uint32_t displaced = 0;
};

enum class HazardKind : uint8_t {
  kNone,
  kReadAfterWrite,
  kWriteAfterWrite,
  kWriteAfterRead,
  kProxy,
};

// A conflict of the current access with an earlier one.
struct Hazard {
  HazardKind kind = HazardKind::kNone;
  Epoch earlier;
  bool tensor = false;    // of tcgen05 operations
  bool together = false;  // a read by the instruction with which the writing lane has read too
};

// One access to be checked and recorded.
struct Touch {
  Epoch self;
  const Knowledge* knowledge = nullptr;  // of the issuer, when it issued
  const VectorClock* order = nullptr;    // the part of it that orders: happened, or tensor
  ActorId in_order_with = kNoActor;      // an actor whose earlier steps are ordered by itself
  bool write = false;
  // The step of the warp up to which each of its lanes has met the others; null: not followed.
  const uint32_t* met = nullptr;
  // The bytes that a plain store to shared memory writes, and the bytes in memory; otherwise null.
  const uint8_t* values = nullptr;
  const uint8_t* memory = nullptr;
};

// Returns whether two accesses by lanes of one warp come from one lane, or the lanes have met in
// between.
inline bool LanesOrdered(const Epoch& earlier, const Touch& touch) {
  const uint8_t lane = touch.self.lane;
  if (lane >= kSeveralLanes || earlier.lane == lane || earlier.lane == kAnyLane) return true;
  return touch.met[lane] >= earlier.step ||
         (earlier.op == touch.self.op && earlier.step == touch.self.step);
}

inline bool Ordered(const Epoch& earlier, const Touch& touch) {
  if (earlier.actor == touch.in_order_with) return LanesOrdered(earlier, touch);
  return touch.order->At(earlier.actor) >= earlier.step;
}

inline bool Conflicts(const Epoch& earlier, const Touch& touch) {
  return earlier.exists() && earlier.Overlaps(touch.self) &&
         !(earlier.bytes & touch.self.bytes & Epoch::kStrong) && !Ordered(earlier, touch);
}

// Returns whether the earlier access is over on every known GPU, although the synchronisation
// between the two is relaxed and orders nothing in the memory model. A thread issues its accesses
// to the shared memory of its CTA in order, so its reads are over when it arrives. Its writes are
// over if a proxy fence follows them, and its operations on tensor memory if it has waited for
// them.
inline bool IsOver(const Hazard& hazard, const Knowledge& known) {
  const Epoch& earlier = hazard.earlier;
  if (hazard.kind == HazardKind::kNone || !(earlier.bytes & Epoch::kOwn)) return false;
  if (known.executed.At(earlier.actor) < earlier.step) return false;
  return hazard.kind == HazardKind::kWriteAfterRead ||
         known.fenced.At(earlier.actor) >= earlier.step;
}

// Returns whether `one` is a conflict, and `other` is none or a weaker one. If the issuer was
// synchronised with the earlier access, a conflict lacks no more than a fence, and is weaker.
inline bool IsWorse(const Hazard& one, const Hazard& other, const Touch& touch) {
  const auto rank = [&](const Hazard& hazard) {
    if (hazard.kind == HazardKind::kNone) return 0;
    const Knowledge& known = *touch.knowledge;
    if (known.happened.At(hazard.earlier.actor) >= hazard.earlier.step) return 1;
    return IsOver(hazard, known) ? 1 : 2;
  };
  return rank(one) > rank(other);
}

// Checks accesses against granules and records them there.
class Toucher {
 public:
  Hazard operator()(Granule& granule, const Touch& touch);

 private:
  // The worst conflict with what is known of the granule.
  Hazard HazardOf(const Granule& granule, const Touch& touch) const;
  // Takes `touch.self` into the place of `before`, which is kept if nothing orders it earlier.
  // Lanes that touch the same bytes in one step are remembered together, as `several`. If a later
  // step of their warp displaces them, only the warp is remembered.
  void Replace(Granule& granule, Epoch& before, const Touch& touch, uint8_t several);
  void Write(Granule& granule, const Touch& touch);

  EpochSets sets_;
};

// Four-byte granules of the shared memory of one CTA.
class SharedShadow {
 public:
  static constexpr uint32_t kGranuleBytes = 4;
  explicit SharedShadow(uint32_t bytes) : granules_((bytes + 19) / kGranuleBytes) {}
  // `hazard_at` receives the address of the first conflict.
  Hazard TouchRange(uint32_t offset, uint32_t bytes, Touch touch, uint32_t* hazard_at);
  // The same for a whole warp: lane i touches the i-th `lane_bytes` bytes.
  Hazard TouchLanes(uint32_t offset, uint32_t lane_bytes, const Touch& touch, uint32_t* hazard_at);

 private:
  std::vector<Granule> granules_;
  Toucher toucher_;
};

// Tensor memory in granules of one column of 16 lanes: every access of warps and of the tensor core
// covers whole ones, but for tcgen05.cp.4x256b and disabled lanes.
class TensorShadow {
 public:
  static constexpr int kLanesPerGranule = 16;
  TensorShadow() : granules_(8 * 512) {}
  Hazard TouchCells(int lane, int lanes, int column, int columns, const Touch& touch, int* at_lane,
                    int* at_column);
  // The columns are free: what was done to them is over.
  void Forget(int column, int columns);

 private:
  std::vector<Granule> granules_;
  Toucher toucher_;
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_SANITIZER_SHADOW_H_
