#include "emulator/sanitizer/pending_loads.h"

#include <bit>
#include <string>

#include "emulator/core/machine.h"

namespace tilelang::emulator {

void PendingLoads::Check(const Warp& warp, const Op& op) {
  const Kernel& kernel = warp.cta.cluster.kernel();
  const OperandUse& use = kernel.sources[op.source].use;
  if (use.kind == OperandUse::Kind::kTensorLoad) {
    for (uint32_t slot : use.writes) loads_[slot] = op.source;
    return;
  }
  if (loads_.empty()) return;
  if (use.kind == OperandUse::Kind::kTensorWait) {
    loads_.clear();
    return;
  }
  const uint32_t* from = nullptr;
  for (uint32_t slot : use.reads) {
    const auto found = loads_.find(slot);
    if (found == loads_.end()) continue;
    from = &found->second;
    if (use.kind == OperandUse::Kind::kMove) break;
    Report(warp.Here(std::countr_zero(warp.split().mask)), "ld-before-wait",
           "reads what the tcgen05.ld at PTX line " +
               std::to_string(kernel.sources[found->second].ptx_line) +
               " loads, before tcgen05.wait::ld");
  }
  const uint32_t load = from ? *from : 0;
  for (uint32_t slot : use.writes) {
    if (from) {
      loads_[slot] = load;
    } else {
      loads_.erase(slot);
    }
  }
}

}  // namespace tilelang::emulator
