// Finds the guards of elect.sync that ptxas drops. Instructions for the engines run once for a warp
// whatever its lanes, so ptxas needs no elected lane for them: the machine code of
// `if (elected) tcgen05.mma`, and of such a copy by TMA, is that instruction alone, without an
// election and a jump (seen for sm_90a and sm_100a).
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "emulator/timing/op_cost.h"

namespace tilelang::emulator {
namespace {

// The largest number of instructions between an election and its last guard.
constexpr uint32_t kNear = 16;

class Elections {
 public:
  Elections(const Kernel& kernel, std::vector<OpCost>& costs) : kernel_(kernel), costs_(costs) {
    for (uint32_t pc = 0; pc < costs.size(); ++pc) {
      for (const uint32_t slot : ReadsOf(pc)) ++readers_[slot];
      const Op& op = kernel.code[pc];
      if (costs[pc].unit == Unit::kBranch && op.target != 0) ++jumps_[op.target];
    }
  }

  void Run() {
    for (uint32_t pc = 0; pc < costs_.size(); ++pc) {
      if (UseAt(pc).predicate_writes.size() != 1) continue;
      if (Spelling(kernel_.sources[kernel_.code[pc].source].spelling).Is("elect")) Drop(pc);
    }
  }

 private:
  const OperandUse& UseAt(uint32_t pc) const {
    return kernel_.sources[kernel_.code[pc].source].use;
  }

  // Returns the registers that an instruction reads, without the sign of predicates.
  std::vector<uint32_t> ReadsOf(uint32_t pc) const {
    const OperandUse& use = UseAt(pc);
    std::vector<uint32_t> reads = use.reads;
    for (const uint32_t slot : use.engine_reads) reads.push_back(slot);
    for (const uint32_t slot : use.predicate_reads) reads.push_back(slot & ~1u);
    if (kernel_.code[pc].guard != kNoSlot) reads.push_back(kernel_.code[pc].guard & ~1u);
    return reads;
  }

  // Instructions of threads beside these, as cp.async.mbarrier.arrive, need their lane.
  bool IsEngineWork(uint32_t pc) const {
    const std::string& spelling = kernel_.sources[kernel_.code[pc].source].spelling;
    return costs_[pc].unit == Unit::kAsync &&
           (spelling.starts_with("tcgen05.") || spelling.starts_with("cp.async.bulk"));
  }

  // Returns whether a jump passes by arithmetic and instructions for engines alone.
  bool SkipsEngineWork(uint32_t jump) const {
    const uint32_t target = kernel_.code[jump].target;
    if (costs_[jump].unit != Unit::kBranch || target <= jump) return false;
    bool any = false;
    for (uint32_t pc = jump + 1; pc < target; ++pc) {
      if (jumps_.count(pc) != 0 || (!costs_[pc].pure && !IsEngineWork(pc))) return false;
      any |= IsEngineWork(pc);
    }
    return any;
  }

  // Follows the elected lane's predicate to its last reader. Drops the election and the jumps by it
  // if the only readers are jumps by instructions for engines, and such instructions.
  void Drop(uint32_t elect) {
    std::map<uint32_t, int> left;  // readers that have not been met, of what follows from it
    const auto follow = [&](uint32_t slot) {
      if (const auto found = readers_.find(slot); found != readers_.end()) {
        left[slot] = found->second;
      }
    };
    const OperandUse& use = UseAt(elect);
    if (std::any_of(use.writes.begin(), use.writes.end(),
                    [&](uint32_t slot) { return readers_.count(slot) != 0; })) {
      return;
    }
    follow(use.predicate_writes[0] & ~1u);
    std::vector<uint32_t> dropped = {elect};
    const uint32_t end = std::min<uint32_t>(static_cast<uint32_t>(costs_.size()), elect + kNear);
    for (uint32_t pc = elect + 1; pc < end && !left.empty(); ++pc) {
      bool reads = false;
      for (const uint32_t slot : ReadsOf(pc)) {
        const auto found = left.find(slot);
        if (found == left.end()) continue;
        reads = true;
        if (--found->second == 0) left.erase(found);
      }
      if (!reads || IsEngineWork(pc)) continue;
      if (costs_[pc].pure && kernel_.code[pc].guard == kNoSlot) {
        for (const uint32_t slot : UseAt(pc).writes) follow(slot);
        for (const uint32_t slot : UseAt(pc).predicate_writes) follow(slot & ~1u);
      } else if (!SkipsEngineWork(pc)) {
        return;
      }
      dropped.push_back(pc);
    }
    if (!left.empty()) return;
    for (const uint32_t pc : dropped) {
      costs_[pc].free = true;
      costs_[pc].waits = costs_[pc].ends_block = costs_[pc].in_order = false;
    }
  }

  const Kernel& kernel_;
  std::vector<OpCost>& costs_;
  std::map<uint32_t, int> readers_, jumps_;
};

}  // namespace

void DropElections(const Kernel& kernel, std::vector<OpCost>* costs) {
  Elections(kernel, *costs).Run();
}

}  // namespace tilelang::emulator
