// Declares what the core needs of the asynchronous engines (cp.async, TMA, tcgen05, mbarrier). The
// async library derives from these classes and makes the objects.
#ifndef TILELANG_EMULATOR_CORE_ASYNC_H_
#define TILELANG_EMULATOR_CORE_ASYNC_H_

#include <memory>
#include <string>

#include "emulator/core/timing.h"

namespace tilelang::emulator {

class Cluster;
class Cta;

// Operations that were issued and have not acted yet, for one cluster (a lone CTA is a cluster).
// An operation is a closure with engine, issuer and what it completes; the derived class holds
// them and knows in which orders they may act.
class AsyncEngines {
 public:
  virtual ~AsyncEngines() = default;
  // Called between time slices of warps. With `stalled`, no warp can run: act on at least the
  // operation(s) whose completion somebody may be waiting for. Returns true if anything acted.
  virtual bool Advance(bool stalled) = 0;
  // All threads have exited: perform what is pending (stores drain at kernel end).
  virtual void Drain() = 0;
  // Functions for timed launches: NextSignal returns when the next operation completes on an
  // mbarrier, ActUntil lets operations complete until `now`, and LastReady returns when the last of
  // all operations is complete.
  virtual Cycle NextSignal() const = 0;
  virtual void ActUntil(Cycle now) = 0;
  virtual Cycle LastReady() const = 0;
  // Returns one line for each pending operation, for deadlock reports; empty if there is none.
  virtual std::string Describe() const = 0;
};

// State of the asynchronous units that belongs to one CTA: tensor memory with its allocation,
// mbarrier bookkeeping, cp.async and bulk groups of each thread.
class CtaAsyncState {
 public:
  virtual ~CtaAsyncState() = default;
  // All threads of the CTA have exited and the engines are drained: report leaks.
  virtual void OnExit() = 0;
};

std::unique_ptr<AsyncEngines> MakeAsyncEngines(Cluster& cluster);
std::unique_ptr<CtaAsyncState> MakeCtaAsyncState(Cta& cta);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_CORE_ASYNC_H_
