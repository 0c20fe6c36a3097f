// Finds the loops that ptxas unrolls: short loops of a single basic block without stores and waits.
// Of their counters, address steps and jumps, one of each remains in a turn.
#include <algorithm>

#include "emulator/timing/op_cost.h"

namespace tilelang::emulator {
namespace {

// The largest number of machine instructions in such a loop, as seen in the code that ptxas makes
// for kernels with loops.
constexpr int kLongest = 28;

bool StaysInLoop(const OpCost& cost) {
  return !cost.ends_block && !cost.in_order && !cost.store && !cost.waits;
}

// Returns whether the instruction is x = x + constant.
bool IsStep(const OpCost& cost, const OperandUse& use) {
  return cost.unit == Unit::kAdd && use.reads.size() == 1 && use.writes == use.reads;
}

void MarkLoop(const Kernel& kernel, uint32_t first, uint32_t jump, std::vector<OpCost>* costs) {
  int slots = 0;
  for (uint32_t pc = first; pc < jump; ++pc) {
    const OpCost& cost = (*costs)[pc];
    if (!StaysInLoop(cost)) return;
    slots += cost.free ? 0 : cost.slots;
  }
  if (slots > kLongest) return;
  const uint32_t guard = kernel.code[jump].guard & ~1u;
  for (uint32_t pc = first; pc <= jump; ++pc) {
    const OperandUse& use = kernel.sources[kernel.code[pc].source].use;
    const auto& writes = use.predicate_writes;
    const bool decides = std::any_of(writes.begin(), writes.end(),
                                     [&](uint32_t slot) { return (slot & ~1u) == guard; });
    (*costs)[pc].unrolled = pc == jump || decides || IsStep((*costs)[pc], use);
  }
}

}  // namespace

void MarkUnrolledLoops(const Kernel& kernel, std::vector<OpCost>* costs) {
  for (uint32_t pc = 0; pc < costs->size(); ++pc) {
    const Op& op = kernel.code[pc];
    const bool loops = (*costs)[pc].unit == Unit::kBranch && op.guard != kNoSlot &&
                       op.target < pc && op.target != 0;
    if (loops) MarkLoop(kernel, op.target, pc, costs);
  }
}

}  // namespace tilelang::emulator
