#include "emulator/timing/occupancy.h"

#include <algorithm>
#include <initializer_list>
#include <set>
#include <utility>

#include "emulator/core/machine.h"
#include "emulator/timing/varying.h"

namespace tilelang::emulator {
namespace {

// Registers that ptxas needs for addresses and temporaries.
constexpr int kOwnRegisters = 4;
constexpr int kMostRegisters = 255;
constexpr int kTensorColumns = 512;  // of an SM

int Product(const std::vector<int>& extents) {
  int product = extents.empty() ? 0 : 1;
  for (const int extent : extents) product *= extent;
  return product;
}

// Returns the registers that launch bounds leave for a thread.
int BoundRegisters(const Kernel& kernel, const Figures& figures) {
  if (kernel.maxnreg > 0) return kernel.maxnreg;
  const int threads = std::max(Product(kernel.maxntid), Product(kernel.reqntid));
  if (threads == 0) return kMostRegisters;
  const int ctas = std::max(1, kernel.minnctapersm);
  return std::clamp(figures.registers / (threads * ctas) / 8 * 8, 16, kMostRegisters);
}

// Returns the columns of tensor memory that a CTA allocates, as far as the allocations have
// constant sizes. Another CTA waits for its own columns until they are free.
int TensorColumns(const Kernel& kernel) {
  uint64_t columns = 0;
  for (const Op& op : kernel.code) {
    if (!kernel.sources[op.source].spelling.starts_with("tcgen05.alloc")) continue;
    for (const SlotInit& constant : kernel.constants) {
      if (constant.slot == op.a[0]) columns += constant.value;
    }
  }
  return static_cast<int>(std::min<uint64_t>(columns, kTensorColumns));
}

// Returns whether lanes of a warp see different values.
bool IsPerLane(Special special) {
  switch (special) {
    case Special::kTidX:
    case Special::kTidY:
    case Special::kTidZ:
    case Special::kLaneid:
      return true;
    default:
      return special >= Special::kLanemaskEq && special <= Special::kLanemaskGt;
  }
}

// Returns the registers that hold a value for each lane. A value that is the same in a warp is in a
// uniform register, and ptxas emits no instruction for some others.
std::set<uint32_t> OwnRegisters(const Kernel& kernel, const CostTable& costs) {
  const Varying varying(kernel, IsPerLane, [&](uint32_t pc) { return !costs[pc].pure; });
  std::set<uint32_t> own;
  for (uint32_t pc = 0; pc < kernel.code.size(); ++pc) {
    if (costs[pc].free) continue;
    for (const uint32_t slot : kernel.sources[kernel.code[pc].source].use.writes) {
      if (varying.Has(slot)) own.insert(slot);
    }
  }
  return own;
}

class Liveness {
 public:
  Liveness(const Kernel& kernel, const CostTable& costs)
      : kernel_(kernel), live_(kernel.code.size()) {
    std::set<uint32_t> slots;
    for (const SourceLine& source : kernel.sources) {
      slots.insert(source.use.reads.begin(), source.use.reads.end());
      slots.insert(source.use.writes.begin(), source.use.writes.end());
    }
    const std::set<uint32_t> own = OwnRegisters(kernel, costs);
    // The distance to the next register bounds the width of a register. Each lane has its part of
    // it.
    for (auto slot = slots.begin(); slot != slots.end(); ++slot) {
      const auto next = std::next(slot);
      const uint32_t bytes = (next == slots.end() ? kernel.file_bytes : *next) - *slot;
      const int width = bytes >= 512 ? 4 : bytes >= 256 ? 2 : 1;
      width_.emplace_back(*slot, own.count(*slot) ? width : 0);
    }
    words_ = width_.size() / 64 + 1;
    for (auto& set : live_) set.assign(words_, 0);
  }

  int Most() {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t pc = live_.size(); pc-- > 0;) changed |= Update(pc);
    }
    int most = 0;
    for (const auto& set : live_) most = std::max(most, Count(set));
    return most;
  }

 private:
  using Set = std::vector<uint64_t>;

  size_t Number(uint32_t slot) const {
    const auto found = std::lower_bound(width_.begin(), width_.end(), std::make_pair(slot, 0));
    return static_cast<size_t>(found - width_.begin());
  }

  // Computes the registers that are live before the instruction. Returns whether they changed.
  bool Update(size_t pc) {
    Set set(words_, 0);
    const Op& op = kernel_.code[pc];
    const SourceLine& source = kernel_.sources[op.source];
    const auto join = [&](size_t next) {
      if (next >= live_.size()) return;
      for (size_t i = 0; i < words_; ++i) set[i] |= live_[next][i];
    };
    const bool jumps = source.spelling.starts_with("bra");
    const bool ends = source.spelling == "ret" || source.spelling == "exit";
    if (jumps) join(op.target);
    if (!(jumps || ends) || op.guard != kNoSlot) join(pc + 1);
    if (op.guard == kNoSlot) {
      for (const uint32_t slot : source.use.writes) Clear(set, Number(slot));
    }
    for (const uint32_t slot : source.use.reads) set[Number(slot) / 64] |= Bit(Number(slot));
    if (set == live_[pc]) return false;
    live_[pc] = std::move(set);
    return true;
  }

  static uint64_t Bit(size_t number) { return uint64_t{1} << (number % 64); }
  static void Clear(Set& set, size_t number) { set[number / 64] &= ~Bit(number); }

  int Count(const Set& set) const {
    int count = 0;
    for (size_t i = 0; i < width_.size(); ++i) {
      if (set[i / 64] & Bit(i)) count += width_[i].second;
    }
    return count;
  }

  const Kernel& kernel_;
  std::vector<Set> live_;
  std::vector<std::pair<uint32_t, int>> width_;  // slot and registers of 32 bits
  size_t words_ = 0;
};

}  // namespace

int RegistersOf(const Launch& launch, const CostTable& costs) {
  const int known = launch.options.timing.registers;
  if (known > 0) return known;
  return std::min(kMostRegisters, Liveness(launch.kernel, costs).Most() + kOwnRegisters);
}

Occupancy OccupancyOf(const Launch& launch, const Figures& figures, int registers) {
  const LaunchOptions& options = launch.options;
  Occupancy o;
  o.threads = static_cast<int>((options.block.count() + kLanes - 1) / kLanes * kLanes);
  o.registers = std::min((registers + 7) / 8 * 8, BoundRegisters(launch.kernel, figures));
  o.shared_bytes = launch.kernel.dynamic_shared_offset + options.dynamic_shared;
  const int warp_registers = (o.registers * kLanes + figures.register_unit - 1) /
                             figures.register_unit * figures.register_unit;
  const int cluster = static_cast<int>(options.cluster.count());
  o.groups = std::max(1, figures.sms / cluster);
  const uint64_t clusters = launch.clusters();
  const int by_grid = static_cast<int>((clusters + static_cast<uint64_t>(o.groups) - 1) /
                                       static_cast<uint64_t>(o.groups));
  o.ctas = by_grid;
  o.limit = "grid";
  const std::initializer_list<std::pair<int, const char*>> limits = {
      {figures.registers / (warp_registers * (o.threads / kLanes)), "registers"},
      {figures.shared_bytes / static_cast<int>(o.shared_bytes), "shared memory"},
      {kTensorColumns / std::max(1, TensorColumns(launch.kernel)), "tensor memory"},
      {figures.threads / o.threads, "threads"},
      {figures.ctas, "CTAs"}};
  for (const auto& [ctas, what] : limits) {
    if (ctas >= o.ctas) continue;
    o.ctas = std::max(1, ctas);
    o.limit = what;
  }
  return o;
}

}  // namespace tilelang::emulator
