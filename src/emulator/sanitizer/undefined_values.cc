#include "emulator/sanitizer/undefined_values.h"

#include <string>

#include "emulator/core/machine.h"
#include "emulator/isa/row.h"

namespace tilelang::emulator {
namespace {

// The lanes of `mask` in which the instruction wants the operand.
uint32_t Wanted(const Warp& warp, const Op& op, isa::Operands operands, uint32_t slot,
                uint32_t mask) {
  if (operands != isa::Operands::kSelected) return mask;
  const uint32_t first = warp.Predicate(op.a[3]);
  return mask & ((slot == op.a[1] ? first : 0) | (slot == op.a[2] ? ~first : 0));
}

}  // namespace

void UndefinedValues::Mark(const Op& op, uint32_t slot, int lane, uint64_t address) {
  Value& value = values_[slot];
  value.lanes |= 1u << lane;
  value.load = &op;
  value.address = address;
}

void UndefinedValues::Check(const Warp& warp, const Op& op, uint32_t mask) {
  if (values_.empty()) return;
  const SourceLine& source = warp.cta.cluster.kernel().sources[op.source];
  const OperandUse& use = source.use;
  const isa::Operands operands = source.row->operands;
  Value result;
  for (uint32_t slot : use.reads) {
    const auto found = values_.find(slot);
    if (found == values_.end()) continue;
    const uint32_t lanes = found->second.lanes & Wanted(warp, op, operands, slot, mask);
    if (lanes == 0) continue;
    if (use.writes.empty() || operands == isa::Operands::kCollective) {
      const Value& value = found->second;
      const Kernel& kernel = warp.cta.cluster.kernel();
      ForEachLane(lanes, [&](int lane) {
        Issuer issuer = warp.Here(lane);
        issuer.op = value.load;
        WarnShared(issuer,
                   "PTX line " + std::to_string(kernel.sources[op.source].ptx_line) +
                       " uses what is read here from shared memory that nothing has written",
                   value.address);
      });
      found->second.lanes &= ~lanes;
      continue;
    }
    result.load = found->second.load;
    result.address = found->second.address;
    result.lanes |= lanes;
  }
  for (uint32_t slot : use.writes) {
    const auto found = values_.find(slot);
    const uint32_t kept = found == values_.end() ? 0 : found->second.lanes & ~mask;
    if (result.lanes) {
      values_[slot] = {result.lanes | kept, result.load, result.address};
    } else if (kept) {
      found->second.lanes = kept;
    } else if (found != values_.end()) {
      values_.erase(found);
    }
  }
}

}  // namespace tilelang::emulator
