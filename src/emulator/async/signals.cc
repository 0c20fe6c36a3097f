#include "emulator/async/signals.h"

#include <cstdio>

#include "emulator/async/engines.h"

namespace tilelang::emulator {
namespace {

Sanitizer* SanitizerOf(const BarrierRef& barrier) {
  return Engines::Of(barrier.owner->cluster).sanitizer();
}

void CheckWaits(const Issuer& issuer, const BarrierRef& barrier, BarrierEntry& entry) {
  if (Sanitizer* sanitizer = SanitizerOf(barrier)) {
    sanitizer->CheckPhaseWaits(issuer, entry.waits, entry.reached, barrier.address());
  }
  entry.waits.clear();
  entry.reached.Clear();
}

// Returns the knowledge of the issuer until now, or null without the sanitizer.
const Knowledge* KnownBy(const Issuer& issuer, const BarrierRef& barrier) {
  Sanitizer* sanitizer = SanitizerOf(barrier);
  return sanitizer ? &sanitizer->Of(issuer) : nullptr;
}

// The running phase completes after what `known` tells.
void Reach(BarrierEntry& entry, const Knowledge& known) {
  entry.reached.Join(known.happened);
  entry.reached.Join(known.executed);
}

// Changes an object, after what `before` tells, and does what the end of a phase entails.
template <typename Change>
auto Update(const Issuer& issuer, const BarrierRef& barrier, const Knowledge* before,
            Change change) {
  BarrierEntry& entry = EntryOf(issuer, barrier);
  if (before) Reach(entry, *before);
  Timing* timing = barrier.owner->cluster.timing;
  if (timing) timing->Arrive(&entry, issuer);
  const uint64_t phase = entry.object.completed_phases();
  return Located(issuer, barrier.address(), "shared memory", [&] {
    const auto result = change(entry);
    if (entry.object.completed_phases() != phase) {
      if (timing) timing->Complete(&entry, false);
      entry.gathering.executed.Join(entry.reached);
      CheckWaits(issuer, barrier, entry);
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

void CheckInitialised(const Issuer& issuer, const BarrierRef& barrier, Proxy proxy) {
  Sanitizer* sanitizer = SanitizerOf(barrier);
  if (!sanitizer) return;
  const bool generic = proxy == Proxy::kGeneric;
  Sanitizer::Step step = sanitizer->ThreadStep(
      issuer,
      generic ? "uses the mbarrier in" : "an asynchronous copy completes on the mbarrier in",
      false);
  step.generic = generic;
  step.on_mbarrier = true;
  sanitizer->Shared(*barrier.owner, barrier.offset, 8, step);
}

BarrierEntry& EntryOf(const Issuer& issuer, const BarrierRef& barrier) {
  return CtaState::Of(*barrier.owner).Barrier(issuer, barrier.offset);
}

namespace {

void Complete(const Issuer& issuer, const BarrierRef& barrier, const Knowledge* before,
              int64_t bytes) {
  Update(issuer, barrier, before, [&](BarrierEntry& entry) {
    entry.object.CompleteTransactions(bytes);
    return 0;
  });
}

}  // namespace

void CompleteTransactions(const Issuer& issuer, const BarrierRef& barrier, int64_t bytes,
                          const Knowledge* before) {
  Complete(issuer, barrier, before, bytes);
}

void CompleteByThread(const Issuer& issuer, const BarrierRef& barrier, int64_t bytes) {
  Complete(issuer, barrier, KnownBy(issuer, barrier), bytes);
}

uint64_t Arrive(const Issuer& issuer, const BarrierRef& barrier, int64_t count, bool drop,
                const Knowledge* known) {
  return Update(issuer, barrier, known, [&](BarrierEntry& entry) {
    if (known) entry.gathering.Join(*known);
    return entry.object.Arrive(count, drop);
  });
}

uint64_t ArriveByThread(const Issuer& issuer, const BarrierRef& barrier, int64_t count, bool drop,
                        bool no_complete) {
  return Update(issuer, barrier, KnownBy(issuer, barrier), [&](BarrierEntry& entry) {
    if (Sanitizer* sanitizer = SanitizerOf(barrier)) {
      sanitizer->Release(issuer, &entry.gathering);
    }
    return no_complete ? entry.object.ArriveNoComplete(count, drop)
                       : entry.object.Arrive(count, drop);
  });
}

void ExpectTransactions(const Issuer& issuer, const BarrierRef& barrier, int64_t bytes) {
  Update(issuer, barrier, KnownBy(issuer, barrier), [&](BarrierEntry& entry) {
    entry.object.ExpectTransactions(bytes);
    return 0;
  });
}

void AddPending(const Issuer& issuer, const BarrierRef& barrier) {
  Update(issuer, barrier, nullptr, [&](BarrierEntry& entry) {
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
  Reach(entry, SanitizerOf(barrier)->Of(issuer));
  return entry.transactions;
}

void ObserveCompletion(Warp& warp, int lane, const BarrierRef& barrier) {
  const Issuer issuer = warp.Here(lane);
  if (Timing* timing = warp.cta.cluster.timing) {
    timing->Pass(&EntryOf(issuer, barrier), warp, false);
  }
  Sanitizer* sanitizer = SanitizerOf(barrier);
  if (!sanitizer) return;
  BarrierEntry& entry = EntryOf(issuer, barrier);
  const PhaseWait wait = sanitizer->WaitBy(issuer);
  std::erase_if(entry.waits, [&](const PhaseWait& old) { return old.actor == wait.actor; });
  entry.waits.push_back(wait);
  sanitizer->Acquire(issuer, entry.completed);
  if (entry.transactions != kNoActor) {
    sanitizer->Learn(issuer, entry.transactions,
                     static_cast<uint32_t>(entry.object.completed_phases()));
  }
}

}  // namespace tilelang::emulator
