// Finds loads of shared memory that ptxas merges into one wide load: neighbouring offsets of one
// register, without a store or a wait between them. The first load then moves all of the data.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "emulator/timing/op_cost.h"

namespace tilelang::emulator {
namespace {

constexpr int64_t kWidest = 16;

class Merger {
 public:
  Merger(const Kernel& kernel, std::vector<OpCost>& costs) : kernel_(kernel), costs_(costs) {}

  void Run() {
    for (uint32_t pc = 0; pc < costs_.size(); ++pc) {
      const OpCost& cost = costs_[pc];
      if (cost.in_order || cost.store) Flush();
      if (IsCandidate(pc)) open_[{cost.address->slot, cost.bytes}].emplace_back(Offset(pc), pc);
      // A write of the address register ends its group of loads.
      for (const uint32_t slot : kernel_.sources[kernel_.code[pc].source].use.writes) Close(slot);
      if (cost.ends_block) Flush();
    }
    Flush();
  }

 private:
  using Loads = std::vector<std::pair<int64_t, uint32_t>>;  // offset and instruction

  int64_t Offset(uint32_t pc) const { return costs_[pc].address->offset; }

  bool IsCandidate(uint32_t pc) const {
    const OpCost& cost = costs_[pc];
    return cost.unit == Unit::kShared && cost.load && !cost.atomic && !cost.in_order &&
           !cost.free && cost.address && (cost.bytes == 4 || cost.bytes == 8) &&
           kernel_.code[pc].guard == kNoSlot;
  }

  void Close(uint32_t slot) {
    for (const uint16_t bytes : {uint16_t{4}, uint16_t{8}}) {
      const auto found = open_.find({slot, bytes});
      if (found == open_.end()) continue;
      Merge(found->second, bytes);
      open_.erase(found);
    }
  }

  void Flush() {
    for (auto& [key, loads] : open_) Merge(loads, key.second);
    open_.clear();
  }

  void Merge(Loads& loads, int64_t bytes) {
    std::sort(loads.begin(), loads.end());
    for (size_t i = 0; i < loads.size();) {
      size_t count = static_cast<size_t>(kWidest / bytes);
      while (count > 1 && !IsRow(loads, i, count, bytes)) count /= 2;
      if (count > 1) Join(loads.begin() + static_cast<int64_t>(i), count, bytes);
      i += count;
    }
  }

  // Returns whether `count` loads from the i-th one on fill an aligned piece of memory.
  static bool IsRow(const Loads& loads, size_t i, size_t count, int64_t bytes) {
    const int64_t size = static_cast<int64_t>(count) * bytes;
    if (i + count > loads.size() || loads[i].first % size != 0) return false;
    for (size_t k = 1; k < count; ++k) {
      if (loads[i + k].first != loads[i].first + static_cast<int64_t>(k) * bytes) return false;
    }
    return true;
  }

  void Join(Loads::const_iterator row, size_t count, int64_t bytes) {
    const auto before = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto end = row + static_cast<int64_t>(count);
    const uint32_t first = std::min_element(row, end, before)->second;
    const int64_t start = row->first;
    for (auto load = row; load != end; ++load) {
      OpCost& cost = costs_[load->second];
      cost.slots = 0;
      cost.bytes = 0;
    }
    costs_[first].slots = 1;
    costs_[first].bytes = static_cast<uint16_t>(static_cast<int64_t>(count) * bytes);
    costs_[first].shift = static_cast<int32_t>(start - Offset(first));
  }

  const Kernel& kernel_;
  std::vector<OpCost>& costs_;
  std::map<std::pair<uint32_t, uint16_t>, Loads> open_;  // by address register and bytes
};

}  // namespace

void MergeSharedLoads(const Kernel& kernel, std::vector<OpCost>* costs) {
  Merger(kernel, *costs).Run();
}

}  // namespace tilelang::emulator
