// The time of one warp: when its registers are ready, and how far it has come.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "emulator/timing/op_cost.h"
#include "emulator/timing/recorder.h"

namespace tilelang::emulator {

// Instructions issue in the order of the program but for what ptxas moves: inside a basic block an
// instruction may come before one that waits for its operands.
class WarpClock {
 public:
  WarpClock(const CostTable& costs, const Figures& figures);
  void Restart(Cycle at, int32_t track, int sub_core, int sm);

  struct Operands {
    Cycle ready = 0;
    Reason reason = Reason::kDependency;
    bool special = false;  // one is a result of the MUFU
    uint32_t written = 0;  // the last one
  };
  // When its operands are there.
  Operands OperandsOf(const OpCost& cost) const {
    Operands operands;
    const uint32_t* reads = costs_.reads(cost);
    for (uint32_t i = 0; i < cost.reads; ++i) {
      const Ready& reg = ready_[reads[i]];
      operands.special |= reg.special;
      operands.written = std::max(operands.written, reg.written);
      if (reg.at <= operands.ready) continue;
      operands.ready = reg.at;
      operands.reason = reg.reason;
    }
    return operands;
  }
  // The program executes it anew with the operands of the last time: ptxas computes it once.
  bool IsRepeated(uint32_t pc, const OpCost& cost, const Operands& operands) const {
    return cost.pure && operands.written < executed_[pc];
  }
  // It is left out in this turn of an unrolled loop.
  bool IsUnrolled(uint32_t pc, const OpCost& cost) {
    return cost.unrolled && ++turns_[pc] % kUnrolled != 0;
  }
  // Notes its execution; its results are there at `ready`.
  void Write(uint32_t pc, const OpCost& cost, Cycle ready, Reason reason) {
    executed_[pc] = ++sequence_;
    const uint32_t* writes = costs_.writes(cost);
    for (uint32_t i = 0; i < cost.writes; ++i) {
      ready_[writes[i]] = {ready, sequence_, reason, cost.unit == Unit::kMufu};
    }
  }
  // The earliest time for an instruction that others may precede in the block; arithmetic also
  // comes before what is in order alone.
  Cycle Earliest(bool pure) const {
    return std::max(pure ? block_ : std::max(block_, order_), recent_[oldest_]);
  }
  void Issued(Cycle at) {
    recent_[oldest_] = at;
    if (++oldest_ == window_) oldest_ = 0;
  }
  void EndBlock(Cycle at) { block_ = at; }
  void KeepOrder(Cycle at) { order_ = at; }
  // The running instruction waits until then.
  void Wait(Cycle until, Reason reason, int32_t slice) {
    if (until <= await) return;
    await = until;
    await_reason = reason;
    await_slice = slice;
  }

  Cycle front = 0;  // all earlier instructions have been issued
  Cycle await = 0;  // what the running instruction waits for
  Reason await_reason = Reason::kAsyncGroup;
  int32_t await_slice = -1;
  // Memory accesses do not pass stores of their space.
  Cycle last_shared_store = 0, last_global_store = 0;
  Cycle tensor_loads = 0;  // when those of tensor memory are there
  Cycle special_free = 0;  // when it may use the MUFU again
  Cycle products = 0;      // when those of its warpgroup are there
  Cycle copies = 0;        // when the last cp.async instruction is done
  int32_t track = -1;
  int sub_core = 0, sm = 0;
  bool blocked = false;
  Cycle started = 0;
  uint64_t polls = 0;  // when last asked

 private:
  struct Ready {
    Cycle at = 0;
    uint32_t written = 0;
    Reason reason = Reason::kDependency;
    bool special = false;
  };
  static constexpr size_t kMaxWindow = 256;
  static constexpr int kUnrolled = 4;
  const CostTable& costs_;
  size_t window_;
  std::vector<Ready> ready_;
  std::vector<uint32_t> executed_;
  std::vector<uint8_t> turns_;
  uint32_t sequence_ = 0;
  Cycle block_ = 0, order_ = 0;
  size_t oldest_ = 0;
  std::array<Cycle, kMaxWindow> recent_{};  // when the last ones were issued
};

}  // namespace tilelang::emulator
