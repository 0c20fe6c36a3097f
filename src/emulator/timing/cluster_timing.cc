#include "emulator/timing/cluster_timing.h"

#include <algorithm>
#include <utility>

#include "emulator/core/warp_loop.h"

namespace tilelang::emulator {
namespace {

// Cycles that a warp may be ahead of the other warps. Arithmetic may be further ahead, because it
// takes only pipes from them. Beside a tensor core this does not hold: the warp has to know how
// busy the tensor core is.
constexpr Cycle kAhead = 24, kArithmeticAhead = 128;

}  // namespace

ClusterTiming::ClusterTiming(TimedMachine& machine, Cluster& cluster, std::vector<Sm*> sms,
                             size_t first_warp)
    : machine_(machine),
      cluster_(cluster),
      costs_(&machine.costs[0]),
      sms_(std::move(sms)),
      warps_(cluster.ctas[0]->warps.size()),
      first_warp_(first_warp),
      turns_(warps_ * cluster.ctas.size()) {
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
      track.sm = SmOf(*warp).number;
      track.name = "CTA " + std::to_string(track.cta) + " warp " + std::to_string(track.warp);
      WarpClock& clock = ClockOf(*warp);
      Sm& sm = SmOf(*warp);
      Recorder& recorder = machine_.recorder;
      clock.Restart(at, &recorder.AccountOf(recorder.AddTrack(std::move(track))),
                    static_cast<int>((first_warp_ + warp->index) % kSubCores));
      places_.push_back({warp->live ? at : kNever, kRuns, warp.get(), &clock, &sm,
                         &sm.cores[static_cast<size_t>(clock.sub_core)]});
    }
  }
}

const ClusterTiming::Next& ClusterTiming::NextWarp() {
  if (next_signals_ == signals_) return next_;
  next_signals_ = signals_;
  for (size_t i = 0; i < places_.size(); ++i) turns_.Put(i, TimeOf(places_[i]));
  turns_.Rebuild();
  return FindNext();
}

const ClusterTiming::Next& ClusterTiming::FindNext() {
  next_ = {turns_.FirstTime(), turns_.SecondTime(), turns_.First()};
  return next_;
}

void ClusterTiming::GiveWayTo(Cycle others) {
  others_ = others;
  limit_ = others + kAhead;
  arithmetic_limit_ = others + (machine_.costs.multiplies() ? kAhead : kArithmeticAhead);
}

Warp& ClusterTiming::Begin(Cycle others) {
  const Next& next = NextWarp();
  GiveWayTo(std::min(others, next.others));
  running_ = next.warp;
  seen_signals_ = signals_;
  const Place& place = places_[running_];
  clock_ = place.clock;
  sm_ = place.sm;
  core_ = place.core;
  beside_wgmma_ = sm_->tensor.busy() != 0;
  live_ = place.warp->live;
  return *place.warp;
}

void ClusterTiming::End(bool blocked) {
  Place& place = places_[running_];
  if (place.warp->live != live_) Signal();
  clock_->blocked = blocked;
  place.front = place.warp->live ? clock_->front : kNever;
  place.seen = blocked ? seen_signals_ : kRuns;
  if (next_signals_ != signals_) return;
  turns_.Set(running_, TimeOf(place));
  FindNext();
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

bool ClusterTiming::ComesLater(WarpClock& clock, const OpCost& cost) {
  // Warps take turns at the port of tensor memory; the warps of a warpgroup come together.
  const bool in_turn = cost.unit == Unit::kTensorLoad || cost.unit == Unit::kWgmma;
  if (in_turn && clock.front > others_) return true;
  if (cost.early_wait >= 0) AwaitProducts(clock, static_cast<uint32_t>(cost.early_wait));
  return false;
}

bool ClusterTiming::IsLeftOut(WarpClock& clock, uint32_t pc, const OpCost& cost, Cycle ready) {
  if (!cost.free && !clock.IsUnrolled(pc, cost)) return cost.pure && clock.IsRepeated(pc, cost);
  clock.Write(pc, cost, ready, clock.ReasonOf(cost, ready));
  return true;
}

bool ClusterTiming::Holds(const Warp& warp, WarpClock& clock, const OpCost& cost, uint32_t mask) {
  const Cycle copies = cost.waits_copies   ? clock.copies
                       : cost.after_copies ? SmOf(warp).copies_taken()
                                           : 0;
  if (copies > now_) {
    clock.Wait(copies, Reason::kAsyncGroup, -1);
    now_ = copies;
  }
  if (!cost.waits || mask == 0) return false;
  if (cost.waits_tensor_loads && clock.tensor_loads > now_) {
    clock.Wait(clock.tensor_loads, Reason::kTensorMemory, -1);
  }
  if (const Cycle admitted = Admission(warp, cost); admitted > now_) {
    clock.Wait(admitted, Reason::kTensorPipe, -1);
    now_ = admitted;
  }
  return true;
}

// Delays the warp until the products of its warpgroup are complete.
void ClusterTiming::AwaitProducts(WarpClock& clock, uint32_t wait) {
  if (clock.products <= clock.front) return;
  clock.account->Add(wait, clock.front, clock.products, Reason::kTensorPipe);
  clock.front = clock.products;
  clock.EndBlock(clock.front);
}

// Moves the warp's front to the end of the instruction, and accounts for the time until then. At
// `now` the instruction would have been issued if it did not have to wait; its operands are ready
// at `ready`.
template <bool quick>
[[gnu::always_inline]] inline void ClusterTiming::Record(WarpClock& clock, uint32_t pc,
                                                         const OpCost& cost, const Issued& issued,
                                                         Cycle end, Cycle now, Cycle ready) {
  Cycle at = clock.front;
  const auto until = [&](Cycle time, Reason why) {
    const int32_t slice = clock.account->Add(pc, at, time, why);
    at = time;
    return slice;
  };
  // No cause of a wait ends later than `end`.
  if (const Cycle waited = std::min(now, ready); waited > at) {
    until(waited, clock.ReasonOf(cost, ready));
  }
  if (!quick && clock.await > at) {
    const int32_t waiting = until(clock.await, clock.await_reason);
    if (waiting >= 0) machine_.recorder.Flow(clock.await_slice, waiting);
  }
  if (const Cycle start = end - cost.issue; start > at) until(start, issued.delay);
  if (end > at) until(end, Reason::kIssue);
  clock.front = at;
}

// Lets the running instruction take its issue slot and its pipe.
template <bool quick>
[[gnu::always_inline]] inline void ClusterTiming::Commit(Warp& warp, WarpClock& clock, uint32_t pc,
                                                         const OpCost& cost, uint32_t mask,
                                                         Cycle now, Cycle ready) {
  SubCore& core = *core_;
  const Cycle from = quick ? now : std::max(now, clock.await);
  const bool takes_slot = quick || cost.slots != 0;
  const Cycle slot = takes_slot ? core.issue.ClaimCycles(from, cost.issue) : from;
  const Cycle start = slot - cost.issue;
  Issued issued{start, slot};
  if (mask != 0) {
    Capacity* pipe = core.PipeOf(cost.unit);
    if (quick || pipe) {
      // Assigns the fields one by one, because a value that was just written in parts is slow to
      // read as a whole.
      issued.at = StartIn(*pipe, cost, start, BesideWgmma(*sm_, core, pipe, start));
      issued.ready = issued.at + cost.done;
      issued.delay = Reason::kPipe;
    } else {
      issued = Execute(warp, pc, cost, mask, start);
    }
  }
  // A busy pipe holds its warp back.
  const Cycle end = std::max(slot, issued.at + cost.issue);
  Record<quick>(clock, pc, cost, issued, end, now, ready);
  clock.Issued(end - cost.issue);
  clock.Write(pc, cost, std::max(issued.ready, end), issued.result);
  if (quick) return;
  if (mask != 0 && cost.in_order && cost.latency > 1) {
    const Cycle over = end + cost.latency - 1;
    clock.account->Add(pc, std::max(clock.front, end), over, Reason::kDependency);
    clock.front = over;
  }
  clock.Close(cost);
  clock.await = 0;
  clock.await_slice = -1;
}

// Counts an instruction that takes no time, because the machine does not execute it. Done commits
// an instruction that may have to wait.
inline Timing::Turn ClusterTiming::LeaveOut(uint32_t pc, const OpCost& cost, uint32_t mask) {
  if (cost.waits) return Turn::kTold;
  InstructionCount& count = machine_.counts[pc].left_out;
  ++count.warps;
  count.lanes += static_cast<uint64_t>(LanesOf(mask));
  return Turn::kIssued;
}

Timing::Turn ClusterTiming::IssueSlowly(Warp& warp, uint32_t pc, const OpCost& cost,
                                        uint32_t mask) {
  WarpClock& clock = *clock_;
  if (clock.front > limit_) return Turn::kLater;
  if (!cost.plain && ComesLater(clock, cost)) return Turn::kLater;
  operands_at_ = clock.AllReadyOf(cost);
  if (IsLeftOut(clock, pc, cost, operands_at_)) return LeaveOut(pc, cost, mask);
  if (clock.IsAfterMufu(cost)) clock.special_free += machine_.figures.mufu_read_cycles;
  now_ = std::max(clock.Earliest(cost), operands_at_);
  if (!cost.plain && Holds(warp, clock, cost, mask)) return Turn::kTold;
  Commit<false>(warp, clock, pc, cost, mask, now_, operands_at_);
  return cost.waits ? Turn::kTold : Turn::kIssued;
}

[[gnu::always_inline]] inline Timing::Turn ClusterTiming::Issue(Warp& warp, uint32_t pc,
                                                                uint32_t mask) {
  const OpCost& cost = costs_[pc];
  if (!cost.quick) return IssueSlowly(warp, pc, cost, mask);
  WarpClock& clock = *clock_;
  if (clock.front > arithmetic_limit_) return Turn::kLater;
  if (clock.IsRepeated(pc, cost)) return LeaveOut(pc, cost, mask);
  const Cycle ready = clock.ReadyOf(cost);
  Commit<true>(warp, clock, pc, cost, mask, std::max(clock.EarliestArithmetic(), ready), ready);
  return Turn::kIssued;
}

void ClusterTiming::Done(Warp& warp, uint32_t pc, uint32_t mask) {
  const OpCost& cost = costs_[pc];
  if (cost.unit == Unit::kBarrier || cost.unit == Unit::kFence || cost.unit == Unit::kWgmma) {
    Signal();
  }
  Commit<false>(warp, *clock_, pc, cost, mask, now_, operands_at_);
}

void ClusterTiming::Run(Warp& warp, uint64_t budget, bool boosted, WarpSlice* slice) {
  WarpRunner::RunOne(this, warp, budget, boosted, slice);
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
  state.slice = acting_ ? acting_slice_ : issuer.warp < 0 ? -1 : ClockOf(issuer).account->last();
}

void ClusterTiming::Complete(const void* barrier, bool named) {
  ++signals_;
  BarrierClock& state = barriers_[barrier];
  const Figures& figures = machine_.figures;
  const double takes = named ? figures.barrier_warp_cycles * state.arrivals
                       : state.who == Reason::kBarrierThreads ? figures.mbarrier_signal
                                                              : 0;
  state.completed = std::max(state.completed, state.gathering + takes);
  // The warps that waited for the barrier continue from this time.
  GiveWayTo(std::min(others_, state.completed));
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
