// The asynchronous engines of a cluster: operations that were issued and have not acted yet.
#ifndef TILELANG_EMULATOR_ASYNC_ENGINES_H_
#define TILELANG_EMULATOR_ASYNC_ENGINES_H_

#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "emulator/async/cta_state.h"
#include "emulator/core/machine.h"
#include "emulator/sanitizer/sanitizer.h"

namespace tilelang::emulator {

// The order in which operations act is fixed within a channel and free between channels.
enum class ChannelKind : uint8_t {
  kPipe,         // tcgen05.mma, cp, shift and commit of one thread
  kCopy,         // cp.async of one thread
  kBulkRead,     // reads of the bulk stores of one thread
  kBulkWrite,    // their writes, which follow the reads
  kTensorStore,  // tcgen05.st of one warp
  kWarpgroup,    // wgmma.mma_async of one warpgroup
};

// One action of an engine.
struct PendingStep {
  Issuer issuer;
  const char* name = "";  // for reports, e.g. "tcgen05.mma"
  std::function<void()> act;
  EngineStep order;      // of its accesses to global memory; set with the sanitizer
  BarrierRef completes;  // the mbarrier that it signals, if any
  AsyncWork work;
  Cycle ready = 0;          // of timed launches: when it is complete
  bool ends_group = false;  // a commit_group marker
  uint64_t age = 0;         // set when queued
};

class Engines : public AsyncEngines {
 public:
  explicit Engines(Cluster& cluster);
  static Engines& Of(Cluster& cluster) { return static_cast<Engines&>(*cluster.engines); }
  static Engines& Of(const Warp& warp) { return Of(warp.cta.cluster); }

  // Queues a step after the steps of the same thread and kind, or acts at once (schedule "eager").
  void Queue(ChannelKind kind, PendingStep step);
  // Queues a step that is ordered with nothing.
  void QueueFree(PendingStep step);
  // Acts on the issuer's channel until at most `pending` groups are left, for which `waiter` waits.
  // Returns how many groups that makes complete for sure.
  uint32_t FinishGroups(ChannelKind kind, const Issuer& issuer, uint32_t pending,
                        const Issuer& waiter);
  // Acts on all steps of the issuer's channel.
  void Finish(ChannelKind kind, const Issuer& issuer);
  void CommitGroup(ChannelKind kind, const Issuer& issuer);
  // Bulk groups have two ends: their reads are over, and later their writes too.
  void CommitBulkGroup(const Issuer& issuer);
  // Number of the next instruction of the issuer's tcgen05 pipe, from 1 on.
  uint32_t NextPipeStep(const Issuer& issuer) {
    return ++ChannelOf(ChannelKind::kPipe, issuer).committed;
  }
  // The number that the group under construction will have, from 1 on.
  uint32_t OpenGroup(ChannelKind kind, const Issuer& issuer);

  // Returns the step that acts now.
  const EngineStep& acting() const { return acting_; }
  // Null when the launch does not ask for checks of ordering.
  Sanitizer* sanitizer() { return sanitizer_.get(); }
  // An actor for a thread's channel, made when first asked for; `prefix` names its kind.
  ActorId ActorOf(ActorKind kind, const Issuer& issuer, const char* prefix, bool per_warp);

  bool Advance(bool stalled) override;
  void Drain() override;
  std::string Describe() const override;
  Cycle NextSignal() const override;
  void ActUntil(Cycle now) override;
  Cycle LastReady() const override { return last_ready_; }

  // Returns true now and then under random schedules, for things that a GPU may do at any time, but
  // seldom does.
  bool RarelyHappens();

 private:
  struct ChannelKey {
    ChannelKind kind;
    uint32_t rank;
    int warp;
    int lane;
    auto operator<=>(const ChannelKey&) const = default;
  };
  struct Channel {
    std::deque<PendingStep> steps;
    uint32_t committed = 0;  // groups; of a pipe: instructions
    uint32_t finished = 0;
    Cycle ready = 0;                // of the last step
    std::vector<Cycle> group_ends;  // of timed launches
  };

  Channel& ChannelOf(ChannelKind kind, const Issuer& issuer);
  void QueueMarker(ChannelKind kind, const Issuer& issuer, std::function<void()> act);
  void Act(const PendingStep& step);
  void SetReady(PendingStep& step, Cycle after);
  void ActFirst(Channel& channel);
  void ActFree(size_t index);
  bool ActOldest();
  bool ActRandom();
  // Acts on what signals the longest-pending mbarrier that some warp waits for.
  bool ActForWaiter();
  std::set<BarrierRef> WaitedBarriers() const;

  Cluster& cluster_;
  std::unique_ptr<Sanitizer> sanitizer_;
  std::map<ChannelKey, Channel> channels_;
  std::deque<PendingStep> free_;
  std::map<std::tuple<ActorKind, uint32_t, int, int>, ActorId> actors_;
  EngineStep acting_;
  std::mt19937_64 random_;
  uint64_t next_age_ = 0;
  uint64_t idle_rounds_ = 0;
  // Times of timed launches at which steps that complete on mbarriers are ready. Some of these
  // steps are pending no more.
  std::priority_queue<Cycle, std::vector<Cycle>, std::greater<Cycle>> signals_;
  Cycle last_ready_ = 0;
};

// Passes accesses of threads and barriers on to the sanitizer of the cluster concerned.
AccessObserver* SanitizerObserver();

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ASYNC_ENGINES_H_
