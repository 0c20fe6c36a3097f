#include "emulator/timing/warp_clock.h"

#include <algorithm>

namespace tilelang::emulator {

WarpClock::WarpClock(const CostTable& costs, const Figures& figures)
    : costs_(costs),
      ready_(costs.registers()),
      notes_(costs.registers()),
      executed_(costs.size()),
      turns_(costs.size()),
      window_(static_cast<uint32_t>(std::max(figures.window, 1))),
      recent_(window_) {}

bool WarpClock::IsNew(const OpCost& cost, uint32_t executed) const {
  const auto& more = costs_.MoreReads(cost);
  return std::any_of(more.begin(), more.end(),
                     [&](uint32_t reg) { return notes_[reg].written >= executed; });
}

bool WarpClock::HasSpecial(const OpCost& cost) const {
  const auto special = [&](uint32_t reg) { return notes_[reg].special; };
  const auto& more = costs_.MoreReads(cost);
  return std::any_of(cost.reads.begin(), cost.reads.end(), special) ||
         std::any_of(more.begin(), more.end(), special);
}

Reason WarpClock::ReasonOfMore(const OpCost& cost, Cycle ready) const {
  for (const uint32_t reg : costs_.MoreReads(cost)) {
    if (ready_[reg] >= ready) return notes_[reg].reason;
  }
  return Reason::kDependency;
}

void WarpClock::Restart(Cycle at, Recorder::Account* of, int core) {
  std::fill(ready_.begin(), ready_.end(), Cycle{});
  std::fill(notes_.begin(), notes_.end(), Note{});
  std::fill(executed_.begin(), executed_.end(), 0);
  std::fill(turns_.begin(), turns_.end(), 0);
  std::fill(recent_.begin(), recent_.end(), at);
  sequence_ = 0;
  oldest_ = 0;
  front = block_ = order_ = last_shared_store = last_global_store = tensor_loads = special_free =
      products = copies = started = at;
  await = 0;
  account = of;
  sub_core = core;
  blocked = false;
}

}  // namespace tilelang::emulator
