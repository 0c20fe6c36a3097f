#include "emulator/async/signals.h"

#include <cstdio>

#include "emulator/async/engines.h"

namespace tilelang::emulator {
namespace {

Sanitizer* SanitizerOf(const BarrierRef& barrier) {
  return Engines::Of(barrier.owner->cluster).sanitizer();
}

// Changes an object and does what the end of a phase entails.
template <typename Change>
auto Update(const Issuer& issuer, const BarrierRef& barrier, Change change) {
  BarrierEntry& entry = EntryOf(issuer, barrier);
  const uint64_t before = entry.object.completed_phases();
  return Located(issuer, barrier.address(), "shared memory", [&] {
    const auto result = change(entry);
    if (entry.object.completed_phases() != before) {
      entry.completed.Join(entry.gathering);
      entry.gathering.Clear();
    }
    CtaState::Of(*barrier.owner).Publish(barrier.offset, entry);
    return result;
  });
}

}  // namespace

BarrierRef ResolveBarrier(Warp& warp, int lane, Space space, uint64_t address) {
  const uint32_t shared = ToSharedAddress(warp, lane, space, address);
  Cta* owner = warp.cta.cluster.SharedOwner(shared);
  const uint32_t offset = shared & 0xFFFFFF;
  if (!owner || !owner->shared.Contains(offset, 8)) {
    Fail(warp.Here(lane), "out-of-bounds", "the mbarrier lies outside of shared memory", shared,
         "shared memory");
  }
  if (offset % 8 != 0) {
    Fail(warp.Here(lane), "misaligned", "an mbarrier must be 8-byte aligned", shared,
         "shared memory");
  }
  return {owner, offset};
}

BarrierEntry& EntryOf(const Issuer& issuer, const BarrierRef& barrier) {
  return CtaState::Of(*barrier.owner).Barrier(issuer, barrier.offset);
}

void CompleteTransactions(const Issuer& issuer, const BarrierRef& barrier, int64_t bytes) {
  Update(issuer, barrier, [&](BarrierEntry& entry) {
    entry.object.CompleteTransactions(bytes);
    return 0;
  });
}

uint64_t Arrive(const Issuer& issuer, const BarrierRef& barrier, int64_t count, bool drop,
                const Knowledge* known) {
  return Update(issuer, barrier, [&](BarrierEntry& entry) {
    if (known) entry.gathering.Join(*known);
    return entry.object.Arrive(count, drop);
  });
}

uint64_t ArriveByThread(const Issuer& issuer, const BarrierRef& barrier, int64_t count, bool drop,
                        bool no_complete) {
  return Update(issuer, barrier, [&](BarrierEntry& entry) {
    if (Sanitizer* sanitizer = SanitizerOf(barrier)) {
      sanitizer->Release(issuer, &entry.gathering);
    }
    return no_complete ? entry.object.ArriveNoComplete(count, drop)
                       : entry.object.Arrive(count, drop);
  });
}

void ExpectTransactions(const Issuer& issuer, const BarrierRef& barrier, int64_t bytes) {
  Update(issuer, barrier, [&](BarrierEntry& entry) {
    entry.object.ExpectTransactions(bytes);
    return 0;
  });
}

void AddPending(const Issuer& issuer, const BarrierRef& barrier) {
  Update(issuer, barrier, [&](BarrierEntry& entry) {
    entry.object.AddPending();
    return 0;
  });
}

ActorId TransactionActor(const Issuer& issuer, const BarrierRef& barrier, uint32_t* step) {
  BarrierEntry& entry = EntryOf(issuer, barrier);
  if (entry.transactions == kNoActor) {
    char name[64];
    std::snprintf(name, sizeof name, "a bulk copy completing on the mbarrier at 0x%X",
                  barrier.address());
    entry.transactions = SanitizerOf(barrier)->NewActor(ActorKind::kTransactions, name);
  }
  *step = static_cast<uint32_t>(entry.object.completed_phases()) + 1;
  return entry.transactions;
}

void ObserveCompletion(const Issuer& issuer, const BarrierRef& barrier) {
  Sanitizer* sanitizer = SanitizerOf(barrier);
  if (!sanitizer) return;
  BarrierEntry& entry = EntryOf(issuer, barrier);
  sanitizer->Acquire(issuer, entry.completed);
  if (entry.transactions != kNoActor) {
    sanitizer->Learn(issuer, entry.transactions,
                     static_cast<uint32_t>(entry.object.completed_phases()));
  }
}

}  // namespace tilelang::emulator
