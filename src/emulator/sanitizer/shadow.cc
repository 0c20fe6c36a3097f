#include "emulator/sanitizer/shadow.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

namespace tilelang::emulator {
namespace {

// Actor, bytes and lane of an access as one word: they are stored at once, so that later loads of
// all or some of them can be forwarded.
uint32_t TailOf(ActorId actor, uint8_t bytes, uint8_t lane) {
  return uint32_t{actor} | uint32_t{bytes} << 16 | uint32_t{lane} << 24;
}
constexpr uint32_t kOwner = 0xFF00FFFF;  // actor and lane

uint8_t* TailOf(Epoch& epoch) {
  return reinterpret_cast<uint8_t*>(&epoch) + offsetof(Epoch, actor);
}
static_assert(offsetof(Epoch, bytes) == offsetof(Epoch, actor) + 2 &&
              offsetof(Epoch, lane) == offsetof(Epoch, actor) + 3);

// Returns whether there is no earlier access, or it was by the same actor and lane.
bool IsOwn(Epoch& earlier, uint32_t tail) {
  uint32_t word;
  std::memcpy(&word, TailOf(earlier), sizeof word);
  return ((word ^ tail) & kOwner) == 0 || !earlier.exists();
}

// The loop over the granules of lanes that follow nothing but their own accesses, the usual case,
// from `first` on: records the touch there, and returns where it ends. Each lane has `per_lane`
// granules. On its own the loop has registers for all that it needs.
template <bool kWrite>
[[gnu::noinline]] uint32_t FollowLanes(Granule* granules, uint32_t first, uint32_t per_lane,
                                       const Touch& touch) {
  if (!touch.self.generic() || touch.self.actor != touch.in_order_with) return first;
  const uint32_t step = touch.self.step, op = touch.self.op;
  const uint8_t bytes = touch.self.bytes | Epoch::kBytes;
  const uint32_t tail = TailOf(touch.self.actor, bytes, touch.met ? 0 : kAnyLane);
  const uint32_t lane = touch.met ? 1u << 24 : 0, none = TailOf(kNoActor, 0, kAnyLane);
  const uint32_t shift = static_cast<uint32_t>(std::countr_zero(per_lane));
  uint32_t i = first;
  for (; i < 32 * per_lane; ++i) {
    Granule& granule = granules[i];
    const uint32_t own = tail + (i >> shift) * lane;
    const bool alone = granule.displaced == 0 && !granule.engine_reader.exists();
    if (!alone || !IsOwn(granule.writer, own) || !IsOwn(granule.thread_reader, own)) break;
    if (kWrite) std::memcpy(TailOf(granule.thread_reader), &none, sizeof none);
    Epoch& epoch = kWrite ? granule.writer : granule.thread_reader;
    epoch.step = step;
    epoch.op = op;
    std::memcpy(TailOf(epoch), &own, sizeof own);
  }
  return i;
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

// Sets larger than this forget their oldest accesses.
constexpr size_t kMostDisplaced = 64;

uint64_t HashOf(const std::vector<Epoch>& set) {
  uint64_t hash = set.size();
  for (const Epoch& epoch : set) {
    hash = (hash ^ epoch.step ^ uint64_t{epoch.actor} << 32 ^ uint64_t{epoch.lane} << 48 ^
            uint64_t{epoch.bytes} << 56) *
           0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

uint32_t EpochSets::Find(std::vector<Epoch> set) {
  if (set.empty()) return 0;
  std::vector<uint32_t>& alike = by_hash_[HashOf(set)];
  for (const uint32_t id : alike) {
    if (sets_[id] == set) return id;
  }
  sets_.push_back(std::move(set));
  alike.push_back(static_cast<uint32_t>(sets_.size() - 1));
  return alike.back();
}

uint32_t EpochSets::Add(uint32_t set, const Epoch& epoch) {
  if (set == added_.before && epoch == added_.epoch) return added_.after;
  std::vector<Epoch> more = sets_[set];
  std::erase_if(more, [&](const Epoch& old) {
    return old.actor == epoch.actor && old.lane == epoch.lane && old.write() == epoch.write() &&
           old.CoveredBy(epoch);
  });
  if (more.size() >= kMostDisplaced) more.erase(more.begin());
  more.push_back(epoch);
  added_ = {set, Find(std::move(more)), epoch};
  return added_.after;
}

uint32_t EpochSets::Without(uint32_t set, const Epoch& epoch) {
  if (set == 0 || (epoch.bytes & Epoch::kBytes) == Epoch::kBytes) return 0;
  if (set == removed_.before && epoch.bytes == removed_.epoch.bytes) return removed_.after;
  std::vector<Epoch> rest = sets_[set];
  std::erase_if(rest, [&](const Epoch& old) { return old.CoveredBy(epoch); });
  removed_ = {set, Find(std::move(rest)), epoch};
  return removed_.after;
}

Hazard Toucher::HazardOf(const Granule& granule, const Touch& touch) const {
  const auto after_write = [&](const Epoch& writer) {
    if (Conflicts(writer, touch)) {
      return touch.write ? HazardKind::kWriteAfterWrite : HazardKind::kReadAfterWrite;
    }
    const bool unfenced = !touch.write && !touch.self.generic() && writer.exists() &&
                          writer.generic() && writer.Overlaps(touch.self) &&
                          touch.knowledge->fenced.At(writer.actor) < writer.step;
    return unfenced ? HazardKind::kProxy : HazardKind::kNone;
  };
  // A thread has the value that it read once it has executed the load. So it does not matter that
  // the order may pass through asynchronous work, which tells only what was executed.
  const auto is_over = [&](const Epoch& reader) {
    return reader.generic() && touch.self.generic() &&
           touch.knowledge->executed.At(reader.actor) >= reader.step;
  };
  const auto after_read = [&](const Epoch& reader) {
    const bool conflicts = touch.write && Conflicts(reader, touch) && !is_over(reader);
    return conflicts ? HazardKind::kWriteAfterRead : HazardKind::kNone;
  };
  Hazard worst;
  const auto add = [&](HazardKind kind, const Epoch& earlier) {
    const Hazard hazard{kind, earlier, false};
    if (kind != HazardKind::kNone && IsWorse(hazard, worst, touch)) worst = hazard;
  };
  add(after_write(granule.writer), granule.writer);
  for (const Epoch* reader : {&granule.thread_reader, &granule.engine_reader}) {
    add(after_read(*reader), *reader);
  }
  if (granule.displaced == 0) return worst;
  for (const Epoch& earlier : sets_.Of(granule.displaced)) {
    add(earlier.write() ? after_write(earlier) : after_read(earlier), earlier);
  }
  return worst;
}

void Toucher::Replace(Granule& granule, Epoch& before, const Touch& touch, uint8_t several) {
  Epoch self = touch.self;
  if (before.exists()) {
    const bool own = before.actor == self.actor;
    // A read that is not followed by lanes says nothing of others.
    const bool others = before.lane != self.lane && (before.lane != kAnyLane || touch.write);
    if (own && before.step == self.step && others && before.Overlaps(self)) {
      const bool mixed = before.lane == kMixedLanes || before.op != self.op;
      self.lane = several == kSeveralLanes && mixed ? kMixedLanes : several;
    }
    if (!before.CoveredBy(self) || !(own || Ordered(before, touch))) {
      Epoch kept = before;
      if (own) kept.lane = kAnyLane;
      if (&before == &granule.writer) kept.bytes |= Epoch::kWrite;
      granule.displaced = sets_.Add(granule.displaced, kept);
    }
  }
  before = self;
}

void Toucher::Write(Granule& granule, const Touch& touch) {
  granule.displaced = sets_.Without(granule.displaced, touch.self);
  for (Epoch* reader : {&granule.thread_reader, &granule.engine_reader}) {
    if (reader->CoveredBy(touch.self)) *reader = Epoch();
  }
  // A write that covers the earlier one takes its place: what conflicts with that was reported.
  Epoch& writer = granule.writer;
  if (writer.actor != touch.self.actor && writer.CoveredBy(touch.self)) writer = Epoch();
  Replace(granule, writer, touch, kAnyLane);
}

Hazard Toucher::operator()(Granule& granule, const Touch& touch) {
  const Hazard hazard = HazardOf(granule, touch);
  if (touch.write) {
    Write(granule, touch);
  } else if (touch.self.generic()) {
    Replace(granule, granule.thread_reader, touch, kSeveralLanes);
  } else {
    Replace(granule, granule.engine_reader, touch, kSeveralLanes);
  }
  return hazard;
}

Hazard SharedShadow::TouchRange(uint32_t offset, uint32_t bytes, Touch touch, uint32_t* hazard_at) {
  Hazard found;
  const uint32_t end = offset + bytes;
  const uint8_t flags = touch.self.bytes & ~Epoch::kBytes;
  for (uint32_t at = offset; at < end;) {
    const uint32_t granule = at / kGranuleBytes;
    const uint32_t stop = std::min(end, (granule + 1) * kGranuleBytes);
    const uint32_t mask = ((1u << (stop - at)) - 1) << (at % kGranuleBytes);
    touch.self.bytes = static_cast<uint8_t>(flags | mask);
    const Hazard hazard = toucher_(granules_[granule], touch);
    if (IsWorse(hazard, found, touch) &&
        !WritesTheSame(touch, at - offset, stop - at, hazard, granules_[granule])) {
      found = hazard;
      *hazard_at = at;
    }
    at = stop;
  }
  return found;
}

Hazard SharedShadow::TouchLanes(uint32_t offset, uint32_t lane_bytes, const Touch& touch,
                                uint32_t* hazard_at) {
  if (lane_bytes < kGranuleBytes) return TouchRange(offset, lane_bytes * 32, touch, hazard_at);
  Hazard found;
  const bool lanes = touch.met != nullptr;
  const uint32_t per_lane = lane_bytes / kGranuleBytes;
  Granule* granules = &granules_[offset / kGranuleBytes];
  const auto follow = touch.write ? FollowLanes<true> : FollowLanes<false>;
  for (uint32_t i = follow(granules, 0, per_lane, touch); i < 32 * per_lane;
       i = follow(granules, i + 1, per_lane, touch)) {
    Touch careful = touch;
    careful.self.bytes |= Epoch::kBytes;
    if (lanes) careful.self.lane = static_cast<uint8_t>(i / per_lane);
    const Hazard hazard = toucher_(granules[i], careful);
    if (!IsWorse(hazard, found, careful)) continue;
    const uint32_t place = i * kGranuleBytes;
    if (WritesTheSame(touch, place, kGranuleBytes, hazard, granules[i])) continue;
    found = hazard;
    *hazard_at = offset + place;
  }
  return found;
}

Hazard TensorShadow::TouchCells(int lane, int lanes, int column, int columns, const Touch& touch,
                                int* at_lane, int* at_column) {
  Hazard found;
  for (int group = lane / kLanesPerGranule; group <= (lane + lanes - 1) / kLanesPerGranule;
       ++group) {
    for (int c = column; c < column + columns; ++c) {
      const Hazard hazard = toucher_(granules_[group * 512 + c], touch);
      if (!IsWorse(hazard, found, touch)) continue;
      found = hazard;
      *at_lane = std::max(lane, group * kLanesPerGranule);
      *at_column = c;
    }
  }
  return found;
}

void TensorShadow::Forget(int column, int columns) {
  for (int group = 0; group < 8; ++group) {
    for (int c = column; c < column + columns; ++c) granules_[group * 512 + c] = Granule();
  }
}

}  // namespace tilelang::emulator
