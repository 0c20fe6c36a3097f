#include "emulator/sanitizer/pending_loads.h"

#include <bit>
#include <string>

#include "emulator/core/machine.h"
#include "emulator/isa/row.h"

namespace tilelang::emulator {
namespace {

const SourceLine& SourceOf(const Warp& warp, const Op& op) {
  return warp.cta.cluster.kernel().sources[op.source];
}

}  // namespace

PendingLoads::Load PendingLoads::Read(const OperandUse& use, uint32_t lanes) const {
  Load all;
  for (uint32_t slot : use.reads) {
    const auto found = loads_.find(slot);
    if (found == loads_.end() || !(found->second.lanes & lanes)) continue;
    all.lanes |= found->second.lanes & lanes;
    all.source = found->second.source;
  }
  return all;
}

void PendingLoads::Set(uint32_t slot, uint32_t lanes, uint32_t source) {
  Load& load = loads_[slot];
  load.lanes |= lanes;
  load.source = source;
}

void PendingLoads::Clear(uint32_t slot, uint32_t lanes) {
  const auto found = loads_.find(slot);
  if (found == loads_.end()) return;
  found->second.lanes &= ~lanes;
  if (found->second.lanes == 0) loads_.erase(found);
}

void PendingLoads::Check(const Warp& warp, const Op& op, uint32_t lanes) const {
  if (loads_.empty()) return;
  const SourceLine& source = SourceOf(warp, op);
  if (source.row->operands == isa::Operands::kMoved) return;
  const Load read = Read(source.use, lanes);
  if (read.lanes == 0) return;
  Report(warp.Here(std::countr_zero(read.lanes)), "ld-before-wait",
         "reads what the tcgen05.ld at PTX line " +
             std::to_string(warp.cta.cluster.kernel().sources[read.source].ptx_line) +
             " loads, before tcgen05.wait::ld");
}

void PendingLoads::Executed(const Warp& warp, const Op& op, uint32_t lanes) {
  const SourceLine& source = SourceOf(warp, op);
  const OperandUse& use = source.use;
  if (source.row->operands == isa::Operands::kTensorLoad) {
    for (uint32_t slot : use.writes) Set(slot, lanes, op.source);
    return;
  }
  if (loads_.empty()) return;
  if (source.row->operands == isa::Operands::kTensorWait) {
    loads_.clear();  // all lanes of the warp execute it together
    return;
  }
  const Load read = Read(use, lanes);
  for (uint32_t slot : use.writes) {
    Clear(slot, lanes);
    if (read.lanes) Set(slot, read.lanes, read.source);
  }
}

}  // namespace tilelang::emulator
