// The time of one warp: when its registers are ready, and how far it has come.
#pragma once

#include <algorithm>
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
    uint64_t last = 0, all = 0;  // of notes
    uint32_t written() const { return static_cast<uint32_t>(last >> 32); }
    bool special() const { return (all & 1) != 0; }  // one is a result of the MUFU
  };
  // When its operands are there.
  Operands OperandsOf(const OpCost& cost) const {
    const Ready a = ready_[cost.reads[0]], b = ready_[cost.reads[1]], c = ready_[cost.reads[2]];
    const Operands operands{std::max(std::max(a.at, b.at), c.at),
                            std::max(std::max(a.note, b.note), c.note), a.note | b.note | c.note};
    return cost.read_count > cost.reads.size() ? WithMore(cost, operands) : operands;
  }
  // Why the last of its operands, which come at `ready`, are waited for: by the first of them.
  Reason ReasonOf(const OpCost& cost, Cycle ready) const {
    const Ready a = ready_[cost.reads[0]], b = ready_[cost.reads[1]], c = ready_[cost.reads[2]];
    if (std::max(std::max(a.at, b.at), c.at) < ready) return ReasonOfMore(cost, ready);
    const uint64_t later = b.at >= ready ? b.note : c.note;
    return Ready::ReasonOf(a.at >= ready ? a.note : later);
  }
  // The program executes it anew with the operands of the last time: ptxas computes it once.
  bool IsRepeated(uint32_t pc, const OpCost& cost, const Operands& operands) const {
    return cost.pure && operands.written() < executed_[pc];
  }
  // It is left out in this turn of an unrolled loop.
  bool IsUnrolled(uint32_t pc, const OpCost& cost) {
    return cost.unrolled && ++turns_[pc] % kUnrolled != 0;
  }
  // Notes its execution; its results are there at `ready`.
  void Write(uint32_t pc, const OpCost& cost, Cycle ready, Reason reason) {
    executed_[pc] = ++sequence_;
    const Ready result(ready, sequence_, reason, cost.unit == Unit::kMufu);
    for (const uint32_t reg : cost.writes) ready_[reg] = result;
    if (cost.write_count <= cost.writes.size()) return;
    for (const uint32_t reg : costs_.MoreWrites(cost)) ready_[reg] = result;
  }
  // The earliest time for an instruction that others may precede in the block; arithmetic also
  // comes before what is in order alone.
  Cycle Earliest(const OpCost& cost) const {
    if (!cost.plain && (cost.in_order || cost.ends_block)) return front;
    return std::max(cost.pure ? block_ : std::max(block_, order_), recent_[oldest_]);
  }
  void Issued(Cycle at) {
    recent_[oldest_] = at;
    if (++oldest_ == window_) oldest_ = 0;
  }
  void EndBlock(Cycle at) { block_ = at; }
  // The instruction has been issued, the last one at `front`: others may not pass it.
  void Close(const OpCost& cost) {
    if (cost.in_order) order_ = front;
    if (cost.ends_block || (cost.in_order && !cost.passable)) block_ = front;
  }
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
  // When it was written, in the order of the program; why it is waited for; whether by the MUFU. In
  // one word, since parts of one that has just been written are slow to read.
  struct Ready {
    Ready() = default;
    Ready(Cycle at, uint32_t written, Reason reason, bool special)
        : at(at),
          note(static_cast<uint64_t>(written) << 32 | static_cast<uint64_t>(reason) << 8 |
               static_cast<uint64_t>(special)) {}
    static Reason ReasonOf(uint64_t note) { return static_cast<Reason>(note >> 8 & 0xFF); }
    Cycle at = 0;
    uint64_t note = static_cast<uint64_t>(Reason::kDependency) << 8;
  };
  Operands WithMore(const OpCost& cost, Operands operands) const;
  Reason ReasonOfMore(const OpCost& cost, Cycle ready) const;
  static constexpr int kUnrolled = 4;
  const CostTable& costs_;
  std::vector<Ready> ready_;
  std::vector<uint32_t> executed_;
  std::vector<uint8_t> turns_;
  uint32_t sequence_ = 0;
  Cycle block_ = 0, order_ = 0;
  uint32_t window_, oldest_ = 0;
  std::vector<Cycle> recent_;  // when the last ones were issued
};

}  // namespace tilelang::emulator
