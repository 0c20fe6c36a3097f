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
