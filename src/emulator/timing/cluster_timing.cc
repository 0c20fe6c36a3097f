#include "emulator/timing/cluster_timing.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace tilelang::emulator {
namespace {

// Mostly all of them.
int LanesOf(uint32_t mask) { return mask == kAllLanes ? kLanes : std::popcount(mask); }

}  // namespace

ClusterTiming::ClusterTiming(TimedMachine& machine, Cluster& cluster, std::vector<Sm*> sms,
                             size_t first_warp)
    : machine_(machine),
      cluster_(cluster),
      sms_(std::move(sms)),
      warps_(cluster.ctas[0]->warps.size()),
      first_warp_(first_warp) {
  for (size_t i = 0; i < warps_ * cluster.ctas.size(); ++i) {
    clocks_.push_back(std::make_unique<WarpClock>(machine.costs, machine.figures));
  }
}

void ClusterTiming::Restart(Cycle at) {
  barriers_.clear();
  tensor_queues_.clear();
  engine_ends_.clear();
  now_ = started_ = at;
  places_.clear();
  next_signals_ = kRuns;
  for (const auto& cta : cluster_.ctas) {
    for (const auto& warp : cta->warps) {
      Track track;
      track.cta = static_cast<int64_t>(cta->linear_id);
      track.warp = static_cast<int>(warp->index);
      track.sm = static_cast<int>(cta->rank);
      track.name = "CTA " + std::to_string(track.cta) + " warp " + std::to_string(track.warp);
      ClockOf(*warp).Restart(at, machine_.recorder.AddTrack(std::move(track)),
                             static_cast<int>((first_warp_ + warp->index) % kSubCores),
                             static_cast<int>(cta->rank));
      places_.push_back({warp->live ? at : kNever, kRuns, warp.get()});
    }
  }
}

const ClusterTiming::Next& ClusterTiming::NextWarp() {
  if (next_signals_ == signals_) return next_;
  next_signals_ = signals_;
  Next next;
  for (size_t i = 0; i < places_.size(); ++i) {
    const Cycle front = places_[i].seen == signals_ ? kNever : places_[i].front;
    const bool first = front < next.at;
    next.others = std::min(next.others, first ? next.at : front);
    next.at = first ? front : next.at;
    next.warp = first ? i : next.warp;
  }
  return next_ = next;
}

Warp& ClusterTiming::Begin(size_t warp, Cycle others, Cycle ahead) {
  others_ = others;
  ahead_ = ahead;
  running_ = warp;
  seen_signals_ = signals_;
  live_ = places_[warp].warp->live;
  return *places_[warp].warp;
}

void ClusterTiming::End(bool blocked) {
  Place& place = places_[running_];
  WarpClock& clock = *clocks_[running_];
  if (place.warp->live != live_) Signal();
  next_signals_ = kRuns;
  clock.blocked = blocked;
  place.front = place.warp->live ? clock.front : kNever;
  place.seen = blocked ? seen_signals_ : kRuns;
}

bool ClusterTiming::OnlyPolls() {
  bool only = true;
  for (const auto& cta : cluster_.ctas) {
    for (const auto& warp : cta->warps) {
      WarpClock& clock = ClockOf(*warp);
      const bool polled = std::exchange(clock.polls, warp->polls) != warp->polls;
      only &= !warp->live || polled || clock.blocked || warp->Waits();
    }
  }
  return only;
}

Cycle ClusterTiming::LastEnd() const {
  Cycle end = 0;
  for (const auto& clock : clocks_) end = std::max(end, clock->front);
  return end;
}

uint32_t ClusterTiming::PcOf(const Issuer& issuer) const {
  return issuer.op ? static_cast<uint32_t>(issuer.op - cluster_.kernel().code.data()) : 0;
}

Cycle ClusterTiming::Admission(const Warp& warp, const OpCost& cost) {
  if (cost.unit != Unit::kWgmma) return 0;
  const auto found = tensor_queues_.find({warp.cta.rank, static_cast<int>(warp.index / 4 * 4)});
  if (found == tensor_queues_.end()) return 0;
  const size_t most = static_cast<size_t>(machine_.figures.wgmma_queue);
  return found->second.size() < most ? 0 : found->second[found->second.size() - most];
}

Timing::Turn ClusterTiming::Issue(Warp& warp, uint32_t pc, uint32_t mask) {
  const OpCost& cost = machine_.costs[pc];
  WarpClock& clock = *clocks_[running_];
  // Warps take turns at the port of tensor memory; those of a warpgroup come together.
  const bool in_turn = cost.unit == Unit::kTensorLoad || cost.unit == Unit::kWgmma;
  if (clock.front > others_ + (in_turn ? 0 : ahead_)) return Turn::kLater;
  if (cost.early_wait >= 0) AwaitProducts(clock, static_cast<uint32_t>(cost.early_wait));
  const WarpClock::Operands operands = clock.OperandsOf(cost);
  operands_at_ = operands.ready;
  operands_reason_ = operands.reason;
  const Turn turn = cost.waits ? Turn::kTold : Turn::kIssued;
  if (cost.free || clock.IsUnrolled(pc, cost)) {
    clock.Write(pc, cost, operands.ready, operands.reason);
    return turn;
  }
  if (clock.IsRepeated(pc, cost, operands)) return turn;
  if (operands.special) clock.special_free += machine_.figures.mufu_read_cycles;
  const Cycle earliest = cost.in_order || cost.ends_block ? clock.front : clock.Earliest(cost.pure);
  now_ = std::max(earliest, operands.ready);
  const Cycle copies = cost.waits_copies   ? clock.copies
                       : cost.after_copies ? SmOf(warp).copies_taken()
                                           : 0;
  if (copies > now_) {
    clock.Wait(copies, Reason::kAsyncGroup, -1);
    now_ = copies;
  }
  if (!cost.waits || mask == 0) {
    Commit(warp, clock, pc, mask);
    return turn;
  }
  if (cost.waits_tensor_loads && clock.tensor_loads > now_) {
    clock.Wait(clock.tensor_loads, Reason::kTensorMemory, -1);
  }
  const Cycle admitted = Admission(warp, cost);
  if (admitted <= now_) return turn;
  clock.Wait(admitted, Reason::kTensorPipe, -1);
  now_ = admitted;
  return turn;
}

void ClusterTiming::Done(Warp& warp, uint32_t pc, uint32_t mask) {
  const OpCost& cost = machine_.costs[pc];
  if (cost.unit == Unit::kBarrier || cost.unit == Unit::kFence || cost.unit == Unit::kWgmma) {
    Signal();
  }
  Commit(warp, *clocks_[running_], pc, mask);
}

// The running instruction takes its slot and its pipe.
[[gnu::always_inline]] inline void ClusterTiming::Commit(Warp& warp, WarpClock& clock, uint32_t pc,
                                                         uint32_t mask) {
  const OpCost& cost = machine_.costs[pc];
  Sm& sm = SmOf(warp);
  SubCore& core = sm.cores[static_cast<size_t>(clock.sub_core)];
  const Cycle from = std::max(now_, clock.await);
  const Cycle slot = core.issue.Claim(from, cost.slots);
  const Cycle start = slot - cost.slots;
  Issued issued{start, slot};
  if (mask != 0) {
    Capacity* pipe = core.PipeOf(cost.unit, start);
    issued = pipe ? Take(*pipe, cost, start, Reason::kPipe, BesideWgmma(sm, core, pipe, start))
                  : Execute(warp, pc, cost, mask, start);
  }
  // A pipe that is taken holds its warp back.
  const Cycle end = std::max(slot, issued.at + cost.slots);
  Record(clock, pc, now_, operands_reason_, issued, end - cost.slots, end, mask != 0);
  clock.Issued(end - cost.slots);
  clock.Write(pc, cost, std::max(issued.ready, end), issued.result);
  if (cost.in_order) clock.KeepOrder(clock.front);
  if (cost.ends_block || (cost.in_order && !cost.passable)) clock.EndBlock(clock.front);
  clock.await = 0;
  clock.await_slice = -1;
  ++machine_.counts[pc].issues;
  ++machine_.instructions;
  if (cost.flops == 0) return;
  const bool tensor = cost.unit == Unit::kMma;
  const double flops = static_cast<double>(cost.flops) * (tensor ? 1 : LanesOf(mask));
  machine_.flops += flops;
  if (tensor) machine_.tensor_flops += flops;
}

// The warp goes on when the products of its warpgroup are there.
void ClusterTiming::AwaitProducts(WarpClock& clock, uint32_t wait) {
  if (clock.products <= clock.front) return;
  machine_.recorder.Warp(clock.track, wait, clock.front, clock.products, Reason::kTensorPipe);
  clock.front = clock.products;
  clock.EndBlock(clock.front);
}

// The warp's front moves to the end of the instruction; what moved it is accounted for.
[[gnu::always_inline]] inline void ClusterTiming::Record(WarpClock& clock, uint32_t pc,
                                                         Cycle dependency, Reason reason,
                                                         const Issued& issued, Cycle start,
                                                         Cycle end, bool acts) {
  Recorder& recorder = machine_.recorder;
  Cycle at = clock.front;
  const auto until = [&](Cycle time, Reason why) {
    const Cycle stop = std::min(time, end);
    if (stop <= at) return -1;
    const int32_t slice = recorder.Warp(clock.track, pc, at, stop, why);
    at = stop;
    return slice;
  };
  until(std::min(dependency, operands_at_), reason);
  const int32_t waiting = until(clock.await, clock.await_reason);
  if (waiting >= 0) recorder.Flow(clock.await_slice, waiting);
  until(start, issued.delay);
  until(end, Reason::kIssue);
  clock.front = std::max(clock.front, end);
  const OpCost& cost = machine_.costs[pc];
  if (acts && cost.in_order && cost.latency > 1) {
    until(kNever, Reason::kIssue);
    const Cycle over = end + cost.latency - 1;
    recorder.Warp(clock.track, pc, std::max(at, end), over, Reason::kDependency);
    clock.front = over;
  }
}

void ClusterTiming::Leave(Cycle before) {
  now_ = before;
  --acting_;
}

Cycle ClusterTiming::Enter(Cycle now) {
  const Cycle before = now_;
  now_ = now;
  ++acting_;
  ++signals_;
  const auto found = engine_ends_.find(now);
  acting_slice_ = found == engine_ends_.end() ? -1 : found->second.first;
  acting_reason_ = found == engine_ends_.end() ? Reason::kBarrierThreads : found->second.second;
  return before;
}

void ClusterTiming::Await(const Issuer& issuer, AsyncWork::Kind kind, Cycle ready) {
  if (issuer.warp < 0) return;
  WarpClock& clock = ClockOf(issuer);
  using K = AsyncWork::Kind;
  const auto found = engine_ends_.find(ready);
  clock.Wait(ready,
             kind == K::kWgmma         ? Reason::kTensorPipe
             : kind == K::kTensorStore ? Reason::kTensorMemory
                                       : Reason::kAsyncGroup,
             found == engine_ends_.end() ? -1 : found->second.first);
}

void ClusterTiming::Arrive(const void* barrier, const Issuer& issuer) {
  ++signals_;
  BarrierClock& state = barriers_[barrier];
  ++state.arrivals;
  if (now_ < state.gathering) return;
  state.gathering = now_;
  state.who = acting_ ? acting_reason_ : Reason::kBarrierThreads;
  state.slice = acting_           ? acting_slice_
                : issuer.warp < 0 ? -1
                                  : machine_.recorder.Last(ClockOf(issuer).track);
}

void ClusterTiming::Complete(const void* barrier, bool named) {
  ++signals_;
  BarrierClock& state = barriers_[barrier];
  const Figures& figures = machine_.figures;
  const double takes = named ? figures.barrier_warp_cycles * state.arrivals
                       : state.who == Reason::kBarrierThreads ? figures.mbarrier_signal
                                                              : 0;
  state.completed = std::max(state.completed, state.gathering + takes);
  // Those that waited for it go on from there.
  others_ = std::min(others_, state.completed);
  state.arrivals = 0;
  state.completed_by = state.who;
  state.completed_slice = state.slice;
  state.gathering = 0;
}

void ClusterTiming::Pass(const void* barrier, Warp& warp, bool named) {
  const BarrierClock& state = barriers_[barrier];
  WarpClock& clock = ClockOf(warp);
  if (state.completed <= now_) return;
  clock.Wait(state.completed, named ? Reason::kNamedBarrier : state.completed_by,
             state.completed_slice);
}

}  // namespace tilelang::emulator
