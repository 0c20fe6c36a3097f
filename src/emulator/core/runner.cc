#include "emulator/core/runner.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "emulator/core/stall.h"
#include "emulator/core/warp_loop.h"

namespace tilelang::emulator {
namespace {

// Threads that a deadlock report lists.
constexpr size_t kMaxListed = 64;
// Instructions that one split of a diverged warp may run before the others get their turn.
constexpr uint64_t kSplitQuantum = 512;
constexpr uint64_t kWarpQuantum = 4096;
// Under a random schedule a warp pauses once in kStays times, for 1, 2, 4, ... or 512 rounds.
constexpr uint64_t kStays = 8;
constexpr uint64_t kLengths = 10;

}  // namespace

// --- warps ------------------------------------------------------------------------------------

bool WarpRunner::MergeCurrent(Warp& warp) {
  auto& splits = warp.splits_;
  bool merged = false;
  for (size_t i = 0; i < splits.size();) {
    Split& here = splits[warp.current_];
    if (i != warp.current_ && splits[i].Meets(here)) {
      here.mask |= splits[i].mask;
      here.waiting = false;
      splits.erase(splits.begin() + i);
      if (i < warp.current_) --warp.current_;
      merged = true;
    } else {
      ++i;
    }
  }
  return merged;
}

int WarpRunner::LowestRunnable(const Warp& warp) {
  int best = -1;
  for (size_t i = 0; i < warp.splits_.size(); ++i) {
    const Split& split = warp.splits_[i];
    if (split.runnable() && (best < 0 || split.Before(warp.splits_[best]))) {
      best = static_cast<int>(i);
    }
  }
  return best;
}

int WarpRunner::OldestRunnable(const Warp& warp) {
  int best = -1;
  for (size_t i = 0; i < warp.splits_.size(); ++i) {
    const Split& split = warp.splits_[i];
    if (!split.runnable() || i == warp.current_) continue;
    if (best < 0 || split.last_run < warp.splits_[best].last_run) best = static_cast<int>(i);
  }
  return best;
}

void WarpRunner::DropEmpty(Warp& warp) { std::erase_if(warp.splits_, std::mem_fn(&Split::empty)); }

void WarpRunner::RunSplit(Warp& warp, uint64_t budget, bool boosted, Slice* slice) {
  if (Timing* timing = warp.cta.cluster.timing) return timing->Run(warp, budget, boosted, slice);
  RunOne<Timing>(nullptr, warp, budget, boosted, slice);
}

bool WarpRunner::PollWaiting(Warp& warp, Slice* slice) {
  bool any = false;
  for (size_t i = 0; i < warp.splits_.size(); ++i) {
    if (!warp.splits_[i].waiting) continue;
    Select(warp, i);
    MergeCurrent(warp);
    i = warp.current_;
    uint64_t before = slice->executed;
    RunSplit(warp, 1, true, slice);
    any |= slice->executed != before;
  }
  return any;
}

WarpRunner::Slice WarpRunner::Run(Warp& warp, uint64_t budget, bool stops) {
  Slice slice;
  slice.stops = stops;
  bool polled = false;
  while (warp.live && slice.executed < budget && !slice.ended()) {
    auto& splits = warp.splits_;
    DropEmpty(warp);
    if (splits.empty()) break;
    warp.current_ = 0;
    if (splits.size() == 1) {
      uint64_t before = slice.executed;
      RunSplit(warp, budget - slice.executed, true, &slice);
      if (slice.executed == before) break;
      continue;
    }
    Slice polls;  // of its own: a wait that polls must not take the turn of those that can run
    bool woke = PollWaiting(warp, &polls);
    slice.executed += polls.executed;
    polled |= polls.yielded;
    DropEmpty(warp);
    int lowest = LowestRunnable(warp);
    if (lowest < 0) {
      if (!woke) break;
      continue;
    }
    Select(warp, lowest);
    uint64_t start = slice.executed;
    while (warp.splits_.size() > 1 && slice.executed - start < kSplitQuantum && !slice.ended() &&
           warp.split().runnable()) {
      RunSplit(warp, kSplitQuantum, false, &slice);
      int next = LowestRunnable(warp);
      if (next < 0) break;
      Select(warp, next);
    }
    warp.split().last_run = ++warp.split_clock_;
    int other = warp.splits_.size() > 1 ? OldestRunnable(warp) : -1;
    if (other >= 0) {  // whoever the lowest program counter has kept from running
      Select(warp, other);
      RunSplit(warp, kSplitQuantum, true, &slice);
      warp.split().last_run = ++warp.split_clock_;
    }
  }
  DropEmpty(warp);
  slice.yielded |= polled;
  return slice;
}

// --- clusters ---------------------------------------------------------------------------------

ClusterRunner::ClusterRunner(Launch& launch, GridShadow* grid_shadow) : cluster_(launch) {
  cluster_.grid_shadow = grid_shadow;
}

void ClusterRunner::Start(uint64_t index) {
  cluster_.Reset(index);
  random_.seed(cluster_.launch.options.seed * 0x9E3779B97F4A7C15ull + index);
  away_.assign(cluster_.ctas.size() * cluster_.ctas[0]->warps.size(), 0);
  for (size_t warp = 0; warp < away_.size(); ++warp) MayLeave(warp);
}

void ClusterRunner::MayLeave(size_t warp) {
  if (cluster_.launch.options.schedule != Schedule::kRandom || random_() % kStays != 0) return;
  away_[warp] = 1u << (random_() % kLengths);
}

bool ClusterRunner::StaysAway(size_t warp) {
  if (away_[warp] == 0) return false;
  --away_[warp];
  return true;
}

void ClusterRunner::AllReturn() { std::fill(away_.begin(), away_.end(), 0); }

uint64_t ClusterRunner::Budget() {
  if (cluster_.launch.options.schedule != Schedule::kRandom) return kWarpQuantum;
  return 1 + random_() % 256;
}

ClusterRunner::Status ClusterRunner::Round() {
  uint64_t executed = 0;
  bool progress = false, spinning = false, alive = false, idle = true, away = false;
  const bool random = cluster_.launch.options.schedule == Schedule::kRandom;
  size_t number = 0;
  for (auto& cta : cluster_.ctas) {
    for (auto& warp : cta->warps) {
      const size_t self = number++;
      if (!warp->live) continue;
      alive = true;
      warp->away = StaysAway(self);
      if (warp->away) {
        away = true;
        continue;
      }
      WarpRunner::Slice slice = WarpRunner::Run(*warp, Budget(), random);
      if (slice.stopped) MayLeave(self);
      executed += slice.executed;
      spinning |= slice.yielded;
      progress |= slice.executed > 0 && !slice.yielded;
      idle &= slice.blocked() || slice.yielded || warp->Waits();
    }
  }
  CheckLimit(executed);
  if (!alive) {
    Finish();
    return Status::kDone;
  }
  if (cluster_.engines->Advance(!progress)) {
    ++cluster_.engine_acts;
    return Status::kRunning;
  }
  if (away) {
    if (!progress) AllReturn();
    return Status::kRunning;
  }
  if (progress)
    return idle && cluster_.engines->Describe().empty() ? Status::kPolling : Status::kRunning;
  // Other CTAs, or the end of the grid before, may still release the threads that poll or wait.
  if (!ExpireTimedWaits() && !spinning && !cluster_.launch.previous_runs) Deadlock();
  return Status::kPolling;
}

void ClusterRunner::CheckLimit(uint64_t executed) {
  Launch& launch = cluster_.launch;
  const uint64_t total = launch.instructions += executed;
  const uint64_t limit = launch.options.instruction_limit;
  if (limit == 0 || total <= limit) return;
  Issuer where{cluster_.ctas[0].get(), nullptr, -1, -1};
  for (auto& cta : cluster_.ctas) {
    for (auto& warp : cta->warps) {
      // Prefers a warp that still runs. All warps may just have ended.
      if (!warp->op || (where.op && !warp->live)) continue;
      const bool first = !where.op || !where.cta->warps[where.warp]->live;
      if (first) where = Issuer{cta.get(), warp->op, static_cast<int>(warp->index), -1};
    }
  }
  Fail(where, "instruction-limit",
       "the launch exceeded its limit of " + std::to_string(limit) + " warp instructions");
}

bool ClusterRunner::ExpireTimedWaits() {
  bool any = false;
  for (auto& cta : cluster_.ctas) {
    for (auto& warp : cta->warps) any |= warp->ExpireTimedWaits();
  }
  return any;
}

void ClusterRunner::Deadlock() {
  Issuer where;
  std::string text = "deadlock: no thread of the CTA can run";
  text += DescribeThreads({&cluster_}, kMaxListed, &where);
  std::string pending = cluster_.engines->Describe();
  if (!pending.empty()) text += "\n  pending: " + pending;
  Fail(where, "deadlock", text);
}

void ClusterRunner::Finish() {
  cluster_.engines->Drain();
  for (auto& cta : cluster_.ctas) {
    cta->async->OnExit();
    cluster_.launch.finished_ctas += 1;
  }
}

}  // namespace tilelang::emulator
