// Signals to mbarriers, from threads and from engines.
#ifndef TILELANG_EMULATOR_ASYNC_SIGNALS_H_
#define TILELANG_EMULATOR_ASYNC_SIGNALS_H_

#include <cstdint>

#include "emulator/async/cta_state.h"
#include "emulator/core/machine.h"
#include "emulator/sanitizer/clock.h"

namespace tilelang::emulator {

// Runs `body` and adds the place to errors of the functional libraries, which know none.
template <typename Body>
auto Located(const Issuer& issuer, uint64_t address, const char* buffer, Body body) {
  try {
    return body();
  } catch (const EmulatorError& error) {
    if (error.where.ptx_line != 0) throw;
    Fail(issuer, error.kind, error.what(), address, buffer);
  }
}

// The mbarrier at a lane's address; fails when that is misaligned or outside of shared memory.
BarrierRef ResolveBarrier(Warp& warp, int lane, Space space, uint64_t address);

// Reports a use of the mbarrier that is not ordered after its initialisation, or is so for another
// proxy only.
void CheckInitialised(const Issuer& issuer, const BarrierRef& barrier, Proxy proxy);

// The object behind `barrier`, which must exist.
BarrierEntry& EntryOf(const Issuer& issuer, const BarrierRef& barrier);

// `bytes` are complete: of a bulk copy, or by a thread (mbarrier.complete_tx).
// `before`: what the issuer knew when it issued the copy, or null.
void CompleteTransactions(const Issuer& issuer, const BarrierRef& barrier, int64_t bytes,
                          const Knowledge* before);
void CompleteByThread(const Issuer& issuer, const BarrierRef& barrier, int64_t bytes);
// Makes `count` arrivals. `known` is the knowledge that they pass to waiting threads, and may be
// null.
uint64_t Arrive(const Issuer& issuer, const BarrierRef& barrier, int64_t count, bool drop,
                const Knowledge* known);
// An arrival of the issuing thread itself.
uint64_t ArriveByThread(const Issuer& issuer, const BarrierRef& barrier, int64_t count, bool drop,
                        bool no_complete = false);
// One more arrival is pending in the running phase.
void AddPending(const Issuer& issuer, const BarrierRef& barrier);
void ExpectTransactions(const Issuer& issuer, const BarrierRef& barrier, int64_t bytes);
// The sanitizer's actor for bulk copies that complete on `barrier`, and the step that a copy
// issued now will be.
ActorId TransactionActor(const Issuer& issuer, const BarrierRef& barrier, uint32_t* step);
// A wait of the lane for the last completed phase succeeded.
void ObserveCompletion(Warp& warp, int lane, const BarrierRef& barrier);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ASYNC_SIGNALS_H_
