#include "emulator/core/runner.h"

#include <bit>

namespace tilelang::emulator {
namespace {

// Instructions that one split of a diverged warp may run before the others get their turn.
constexpr uint64_t kSplitQuantum = 512;
constexpr uint64_t kWarpQuantum = 4096;
// Rounds in which nothing but timed waits and spinning happened, after which it is a deadlock.
constexpr uint64_t kMaxStalledRounds = 256;
// Warp instructions between two stalls from which on threads did more than retry their waits.
constexpr uint64_t kBusyInstructions = 20000;

std::string Hex(uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string LaneList(uint32_t mask) {
  if (mask == kAllLanes) return "all lanes";
  std::string text = "lanes ";
  bool first = true;
  while (mask) {
    int begin = std::countr_zero(mask);
    int length = std::countr_one(mask >> begin);
    if (!first) text += ",";
    first = false;
    text += std::to_string(begin);
    if (length > 1) text.append("-").append(std::to_string(begin + length - 1));
    mask &= length == 32 ? 0 : ~(((1u << length) - 1) << begin);
  }
  return text;
}

}  // namespace

// --- warps ------------------------------------------------------------------------------------

bool WarpRunner::MergeCurrent(Warp& warp) {
  auto& splits = warp.splits_;
  bool merged = false;
  for (size_t i = 0; i < splits.size();) {
    Split& here = splits[warp.current_];
    if (i != warp.current_ && splits[i].pc == here.pc && splits[i].resume == here.resume) {
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
    if (!split.waiting && (best < 0 || split.pc < warp.splits_[best].pc))
      best = static_cast<int>(i);
  }
  return best;
}

int WarpRunner::OldestRunnable(const Warp& warp) {
  int best = -1;
  for (size_t i = 0; i < warp.splits_.size(); ++i) {
    const Split& split = warp.splits_[i];
    if (split.waiting || i == warp.current_) continue;
    if (best < 0 || split.last_run < warp.splits_[best].last_run) best = static_cast<int>(i);
  }
  return best;
}

void WarpRunner::RunSplit(Warp& warp, uint64_t budget, bool boosted, Slice* slice) {
  const Op* code = warp.cta.cluster.kernel().code.data();
  uint32_t pc = warp.split().pc;
  uint32_t mask = warp.split().mask;
  uint64_t executed = 0;
  InstructionCount* counts = warp.cta.cluster.counts.data();
  const uint64_t width = static_cast<uint64_t>(std::popcount(mask));
  while (executed < budget) {
    const Op& op = code[pc];
    uint32_t active = mask;
    if (op.guard != kNoSlot) active &= warp.Predicate(op.guard);
    if (active) {
      warp.op = &op;
      if (warp.pending_loads) warp.pending_loads->Check(warp, op);
      Flow flow = op.handler(warp, op, active);
      if (flow == Flow::kWait) {
        warp.split().waiting = true;
        break;
      }
      ++executed;
      InstructionCount& count = counts[pc];
      ++count.warps;
      count.lanes += active == mask ? width : static_cast<uint64_t>(std::popcount(active));
      Split& split = warp.split();
      split.resume = 0;
      split.waiting = false;
      if (flow == Flow::kJump) {
        pc = split.pc;
        if (split.mask != mask) break;
      } else {
        ++pc;
        if (flow == Flow::kYield) {
          slice->yielded = true;
          split.pc = pc;
          break;
        }
      }
    } else {
      ++executed;
      ++counts[pc].warps;
      ++pc;
    }
    if (warp.splits_.size() > 1) {
      warp.split().pc = pc;
      if (MergeCurrent(warp) || warp.split().mask != mask) break;
      if (!boosted && LowestRunnable(warp) != static_cast<int>(warp.current_)) break;
    }
  }
  slice->executed += executed;
  warp.split().pc = pc;
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

WarpRunner::Slice WarpRunner::Run(Warp& warp, uint64_t budget) {
  Slice slice;
  while (warp.live && slice.executed < budget && !slice.yielded) {
    auto& splits = warp.splits_;
    std::erase_if(splits, [](const Split& split) { return split.mask == 0; });
    if (splits.empty()) break;
    warp.current_ = 0;
    if (splits.size() == 1) {
      uint64_t before = slice.executed;
      RunSplit(warp, budget - slice.executed, true, &slice);
      if (slice.executed == before) break;
      continue;
    }
    bool woke = PollWaiting(warp, &slice);
    std::erase_if(splits, [](const Split& split) { return split.mask == 0; });
    int lowest = LowestRunnable(warp);
    if (lowest < 0) {
      if (!woke) break;
      continue;
    }
    Select(warp, lowest);
    uint64_t start = slice.executed;
    while (warp.splits_.size() > 1 && slice.executed - start < kSplitQuantum && !slice.yielded &&
           !warp.split().waiting && warp.split().mask != 0) {
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
  std::erase_if(warp.splits_, [](const Split& split) { return split.mask == 0; });
  return slice;
}

// --- clusters ---------------------------------------------------------------------------------

ClusterRunner::ClusterRunner(Launch& launch, GridShadow* grid_shadow) : cluster_(launch) {
  cluster_.grid_shadow = grid_shadow;
}

void ClusterRunner::Start(uint64_t index) {
  cluster_.Reset(index);
  random_.seed(cluster_.launch.options.seed * 0x9E3779B97F4A7C15ull + index);
  stalled_rounds_ = 0;
}

uint64_t ClusterRunner::Budget() {
  if (cluster_.launch.options.schedule != Schedule::kRandom) return kWarpQuantum;
  return 1 + random_() % 256;
}

ClusterRunner::Status ClusterRunner::Round() {
  uint64_t executed = 0;
  bool progress = false, spinning = false, alive = false;
  for (auto& cta : cluster_.ctas) {
    for (auto& warp : cta->warps) {
      if (!warp->live) continue;
      WarpRunner::Slice slice = WarpRunner::Run(*warp, Budget());
      executed += slice.executed;
      spinning |= slice.yielded;
      progress |= slice.executed > 0 && !slice.yielded;
      alive |= warp->live != 0;
    }
  }
  Launch& launch = cluster_.launch;
  uint64_t total = launch.instructions += executed;
  if (launch.options.instruction_limit && total > launch.options.instruction_limit) {
    Fail(Issuer{cluster_.ctas[0].get(), nullptr, -1, -1}, "instruction-limit",
         "the launch has executed more than its limit of " +
             std::to_string(launch.options.instruction_limit) + " warp instructions");
  }
  if (!alive) {
    Finish();
    return Status::kDone;
  }
  since_stall_ += executed;
  if (progress) {
    if (since_stall_ > kBusyInstructions) stalled_rounds_ = 0;
    cluster_.engines->Advance(false);
    return Status::kRunning;
  }
  if (!cluster_.engines->Advance(true)) {
    if (spinning) {  // other CTAs may still release the threads that poll
      ExpireTimedWaits();
      return Status::kSpinning;
    }
    Stalled();
  }
  return Status::kRunning;
}

void ClusterRunner::Stalled() {
  since_stall_ = 0;
  if (!ExpireTimedWaits() || ++stalled_rounds_ > kMaxStalledRounds) Deadlock();
}

bool ClusterRunner::ExpireTimedWaits() {
  bool any = false;
  for (auto& cta : cluster_.ctas) {
    for (auto& warp : cta->warps) any |= warp->ExpireTimedWaits();
  }
  return any;
}

void ClusterRunner::Deadlock() {
  std::string text = "deadlock: no thread of the CTA can run";
  const Cta* first = nullptr;
  Issuer where;
  for (auto& cta : cluster_.ctas) {
    for (auto& warp : cta->warps) {
      for (const Split& split : warp->splits()) {
        if (!split.mask) continue;
        const Op& op = cluster_.kernel().code[split.pc];
        const SourceLine& source = cluster_.kernel().sources[op.source];
        if (!first) {
          first = cta.get();
          where = Issuer{first, &op, static_cast<int>(warp->index), std::countr_zero(split.mask)};
        }
        text += "\n  CTA (" + std::to_string(cta->id.x) + "," + std::to_string(cta->id.y) + "," +
                std::to_string(cta->id.z) + ") warp " + std::to_string(warp->index) + " " +
                LaneList(split.mask) + " at line " + std::to_string(source.ptx_line) + " (" +
                source.spelling + ")";
        if (source.location.line > 0) {
          text += ", source line " + std::to_string(source.location.line) + ",";
        }
        if (!split.waiting) continue;
        text += std::string(" wait for ") + split.wait.object;
        if (split.wait.address) text += " at " + Hex(split.wait.address);
        if (split.wait.describe) text += ": " + split.wait.describe(*warp, split.wait);
      }
    }
  }
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
