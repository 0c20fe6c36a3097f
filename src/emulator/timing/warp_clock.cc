#include "emulator/timing/warp_clock.h"

#include <algorithm>

namespace tilelang::emulator {

WarpClock::WarpClock(const CostTable& costs, const Figures& figures)
    : costs_(costs),
      window_(std::clamp<size_t>(static_cast<size_t>(figures.window), 1, kMaxWindow)),
      ready_(costs.registers()),
      executed_(costs.size()),
      turns_(costs.size()) {}

void WarpClock::Restart(Cycle at, int32_t new_track, int core, int new_sm) {
  std::fill(ready_.begin(), ready_.end(), Ready{});
  std::fill(executed_.begin(), executed_.end(), 0);
  std::fill(turns_.begin(), turns_.end(), 0);
  recent_.fill(at);
  sequence_ = 0;
  number_ = 0;
  front = block_ = order_ = last_shared_store = last_global_store = tensor_loads = special_free =
      products = copies = started = at;
  await = 0;
  track = new_track;
  sub_core = core;
  sm = new_sm;
  blocked = false;
}

WarpClock::Operands WarpClock::OperandsOf(const OpCost& cost) const {
  Operands operands;
  const uint32_t* reads = costs_.reads(cost);
  for (uint32_t i = 0; i < cost.reads; ++i) {
    const Ready& reg = ready_[reads[i]];
    operands.special |= reg.special;
    if (reg.at <= operands.ready) continue;
    operands.ready = reg.at;
    operands.reason = reg.reason;
  }
  return operands;
}

bool WarpClock::IsRepeated(uint32_t pc, const OpCost& cost) const {
  const uint32_t last = executed_[pc];
  if (!cost.pure || last == 0) return false;
  const uint32_t* reads = costs_.reads(cost);
  return std::all_of(reads, reads + cost.reads,
                     [&](uint32_t reg) { return ready_[reg].written < last; });
}

void WarpClock::Write(uint32_t pc, const OpCost& cost, Cycle ready, Reason reason) {
  executed_[pc] = ++sequence_;
  const uint32_t* writes = costs_.writes(cost);
  for (uint32_t i = 0; i < cost.writes; ++i) {
    ready_[writes[i]] = {ready, sequence_, reason, cost.unit == Unit::kMufu};
  }
}

}  // namespace tilelang::emulator
