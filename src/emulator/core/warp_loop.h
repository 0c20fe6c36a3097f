// The loop over the instructions of a warp's split, for callers that know its clock.
#ifndef TILELANG_EMULATOR_CORE_WARP_LOOP_H_
#define TILELANG_EMULATOR_CORE_WARP_LOOP_H_

#include <type_traits>

#include "emulator/core/runner.h"

namespace tilelang::emulator {

template <typename Clock>
void WarpRunner::RunOne(Clock* clock, Warp& warp, uint64_t budget, bool boosted, Slice* slice) {
  constexpr bool timed = !std::is_same_v<Clock, Timing>;
  const Op* code = warp.cta.cluster.kernel().code.data();
  uint32_t pc = warp.split().pc;
  uint32_t mask = warp.split().mask;
  uint64_t executed = 0;
  InstructionCount* counts = warp.cta.cluster.counts.data();
  const uint64_t width = static_cast<uint64_t>(LanesOf(mask));
  while (executed < budget) {
    const Op& op = code[pc];
    // A timed warp stops by its clock instead.
    if (!timed && slice->stops && (op.order & kWaits) && slice->executed + executed != 0) {
      slice->stopped = true;
      break;
    }
    uint32_t active = mask;
    if (op.guard != kNoSlot) active &= warp.Predicate(op.guard);
    [[maybe_unused]] Timing::Turn turn;
    if constexpr (timed) {
      turn = clock->Issue(warp, pc, active);
      if (turn == Timing::Turn::kLater) {
        slice->stopped = true;
        break;
      }
    }
    if (active) {
      warp.op = &op;
      if (warp.register_checks_) warp.register_checks_->Before(warp, op, active);
      Flow flow = op.handler(warp, op, active);
      if (flow == Flow::kWait) {
        warp.split().waiting = true;
        break;
      }
      if (warp.register_checks_) warp.register_checks_->After(warp, op, active);
      if constexpr (timed) {
        if (turn == Timing::Turn::kTold) clock->Done(warp, pc, active);
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

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_CORE_WARP_LOOP_H_
