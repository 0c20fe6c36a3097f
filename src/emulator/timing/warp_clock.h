// The time of one warp: when its registers are ready, and how far it has come.
#ifndef TILELANG_EMULATOR_TIMING_WARP_CLOCK_H_
#define TILELANG_EMULATOR_TIMING_WARP_CLOCK_H_

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
  void Restart(Cycle at, Recorder::Account* of, int sub_core);

  // Returns the time at which the first three operands are ready; quick instructions have no more.
  Cycle ReadyOf(const OpCost& cost) const {
    const Cycle a = ready_[cost.reads[0]], b = ready_[cost.reads[1]], c = ready_[cost.reads[2]];
    return std::max(std::max(a, b), c);
  }
  // Returns the time at which all operands are ready.
  Cycle AllReadyOf(const OpCost& cost) const {
    Cycle ready = ReadyOf(cost);
    for (const uint32_t reg : costs_.MoreReads(cost)) ready = std::max(ready, ready_[reg]);
    return ready;
  }
  // Returns the reason of the wait for the last of the operands, which come at `ready`. If several
  // come then, it is the reason of the first one.
  Reason ReasonOf(const OpCost& cost, Cycle ready) const {
    for (const uint32_t reg : cost.reads) {
      if (ready_[reg] >= ready) return notes_[reg].reason;
    }
    return ReasonOfMore(cost, ready);
  }
  // The program executes it anew with the operands of the last time: ptxas computes it once.
  bool IsRepeated(uint32_t pc, const OpCost& cost) const {
    if (cost.renewed) return false;
    const uint32_t executed = executed_[pc];
    for (const uint32_t reg : cost.reads) {
      if (notes_[reg].written >= executed) return false;
    }
    return costs_.MoreReads(cost).empty() || !IsNew(cost, executed);
  }
  // An operand is a result of the MUFU.
  bool IsAfterMufu(const OpCost& cost) const { return cost.after_mufu && HasSpecial(cost); }
  // It is left out in this turn of an unrolled loop.
  bool IsUnrolled(uint32_t pc, const OpCost& cost) {
    return cost.unrolled && ++turns_[pc] % kUnrolled != 0;
  }
  // Notes its execution; its results are there at `ready`.
  void Write(uint32_t pc, const OpCost& cost, Cycle ready, Reason reason) {
    executed_[pc] = ++sequence_;
    const Note note{sequence_, reason, cost.unit == Unit::kMufu};
    for (const uint32_t reg : cost.writes) WriteTo(reg, ready, note);
    if (cost.write_count <= cost.writes.size()) return;
    for (const uint32_t reg : costs_.MoreWrites(cost)) WriteTo(reg, ready, note);
  }
  // The earliest time for an instruction that others may precede in the block; arithmetic also
  // comes before what is in order alone.
  Cycle Earliest(const OpCost& cost) const {
    if (cost.in_order || cost.ends_block) return front;
    return cost.pure ? EarliestArithmetic() : std::max(std::max(block_, order_), recent_[oldest_]);
  }
  Cycle EarliestArithmetic() const { return std::max(block_, recent_[oldest_]); }
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
  Cycle tensor_loads = 0;  // when loads of tensor memory are complete
  Cycle special_free = 0;  // when it may use the MUFU again
  Cycle products = 0;      // when products of its warpgroup are complete
  Cycle copies = 0;        // when the last cp.async instruction is done
  Recorder::Account* account = nullptr;
  int sub_core = 0;
  bool blocked = false;
  Cycle started = 0;
  uint64_t polls = 0;  // when last asked

 private:
  struct Note {
    uint32_t written = 0;  // in the order of the program
    Reason reason = Reason::kDependency;
    bool special = false;  // by the MUFU
  };
  void WriteTo(uint32_t reg, Cycle ready, const Note& note) {
    ready_[reg] = ready;
    notes_[reg] = note;
  }
  bool IsNew(const OpCost& cost, uint32_t executed) const;
  bool HasSpecial(const OpCost& cost) const;
  Reason ReasonOfMore(const OpCost& cost, Cycle ready) const;
  static constexpr int kUnrolled = 4;
  const CostTable& costs_;
  std::vector<Cycle> ready_;  // registers
  std::vector<Note> notes_;
  std::vector<uint32_t> executed_;
  std::vector<uint8_t> turns_;
  uint32_t sequence_ = 0;
  Cycle block_ = 0, order_ = 0;
  uint32_t window_, oldest_ = 0;
  std::vector<Cycle> recent_;  // when the last ones were issued
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_TIMING_WARP_CLOCK_H_
