// Finds the waits for all products of a warpgroup that ptxas moves up: before arithmetic that does
// not need the products, as far as the last shuffle, memory access or barrier.
#include <vector>

#include "emulator/timing/op_cost.h"

namespace tilelang::emulator {
namespace {

bool WaitsForAll(const SourceLine& source, const Op& op) {
  const Spelling s(source.spelling);
  return s.Is("wgmma") && s.Has("wait_group") && op.immediate == 0;
}

// A move without operands reads a clock.
bool MayFollow(const OpCost& cost) {
  if (cost.free) return cost.read_count > 0;
  return cost.pure && !cost.ends_block && cost.unit != Unit::kShuffle;
}

}  // namespace

void MoveWaitsUp(const Kernel& kernel, std::vector<OpCost>* costs) {
  for (uint32_t pc = 1; pc < costs->size(); ++pc) {
    const Op& op = kernel.code[pc];
    if (!WaitsForAll(kernel.sources[op.source], op)) continue;
    uint32_t first = pc;
    while (first > 0 && MayFollow((*costs)[first - 1])) --first;
    if (first == pc) continue;
    (*costs)[first].early_wait = static_cast<int32_t>(pc);
    (*costs)[pc].passable = true;
  }
}

}  // namespace tilelang::emulator
