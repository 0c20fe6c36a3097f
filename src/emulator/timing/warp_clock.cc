#include "emulator/timing/warp_clock.h"

#include <algorithm>

namespace tilelang::emulator {

WarpClock::WarpClock(const CostTable& costs, const Figures& figures)
    : costs_(costs),
      ready_(costs.registers()),
      executed_(costs.size()),
      turns_(costs.size()),
      window_(static_cast<uint32_t>(std::max(figures.window, 1))),
      recent_(window_) {}

WarpClock::Operands WarpClock::WithMore(const OpCost& cost, Operands operands) const {
  for (const uint32_t read : costs_.MoreReads(cost)) {
    const Ready& reg = ready_[read];
    operands.ready = std::max(operands.ready, reg.at);
    operands.last = std::max(operands.last, reg.note);
    operands.all |= reg.note;
  }
  return operands;
}

Reason WarpClock::ReasonOfMore(const OpCost& cost, Cycle ready) const {
  for (const uint32_t read : costs_.MoreReads(cost)) {
    if (ready_[read].at >= ready) return Ready::ReasonOf(ready_[read].note);
  }
  return Reason::kDependency;
}

void WarpClock::Restart(Cycle at, int32_t new_track, int core, int new_sm) {
  std::fill(ready_.begin(), ready_.end(), Ready{});
  std::fill(executed_.begin(), executed_.end(), 0);
  std::fill(turns_.begin(), turns_.end(), 0);
  std::fill(recent_.begin(), recent_.end(), at);
  sequence_ = 0;
  oldest_ = 0;
  front = block_ = order_ = last_shared_store = last_global_store = tensor_loads = special_free =
      products = copies = started = at;
  await = 0;
  track = new_track;
  sub_core = core;
  sm = new_sm;
  blocked = false;
}

}  // namespace tilelang::emulator
