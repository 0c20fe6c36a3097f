#include "emulator/sanitizer/undefined_values.h"

#include <bit>
#include <cstring>
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

// Four lanes hold a row of a fragment of mma.
uint32_t Quads(uint32_t lanes) {
  lanes |= lanes >> 1 & 0x55555555;
  lanes |= lanes << 1 & 0xAAAAAAAA;
  lanes |= lanes >> 2 & 0x33333333;
  return lanes | (lanes << 2 & 0xCCCCCCCC);
}

// Which bytes of the memory at a lane's operand were written; nullptr where that is not followed.
uint8_t* WrittenAt(const Warp& warp, const SourceLine& source, int lane) {
  const uint64_t address = source.use.addresses[0].At(warp, lane);
  const bool shared = source.spelling.find(".shared") != std::string::npos;
  if (shared || (address & ~uint64_t{0xFFFFFFFF}) == kSharedWindow) {
    Cta* owner = warp.cta.cluster.SharedOwner(static_cast<uint32_t>(address));
    return owner ? owner->shared.written(static_cast<uint32_t>(address) & 0xFFFFFF) : nullptr;
  }
  return warp.cta.cluster.launch.global.WrittenAt(address);
}

uint32_t ElementBytes(const SourceLine& source) {
  const std::string type = source.spelling.substr(source.spelling.rfind('.') + 1);
  return static_cast<uint32_t>(TypeBits(ParseType(type))) / 8;
}

bool Multiplies(const isa::Row& row) {
  return row.cost == isa::Cost::kMma || row.cost == isa::Cost::kWmma;
}

// Whether the instruction uses the value of a register that nothing has written, beyond computing.
// What other lanes get by a shuffle is not followed.
bool UsesRegister(const isa::Row& row, const OperandUse& use) {
  return row.cost == isa::Cost::kAtomic || (use.writes.empty() && use.engine_writes.empty());
}

bool UsesLoaded(const isa::Row& row, const OperandUse& use) {
  return use.writes.empty() || row.operands == isa::Operands::kCollective;
}

}  // namespace

void UndefinedValues::Mark(const Op& op, uint32_t slot, int lane, uint64_t address, bool shared) {
  Value& value = values_[slot];
  value = {value.lanes | 1u << lane, &op, nullptr, address, shared};
  loaded_ = true;
}

void UndefinedValues::MarkRegisters(const Kernel& kernel, uint32_t lanes) {
  for (const UnwrittenRegister& each : kernel.unwritten) {
    values_[each.slot] = {lanes, nullptr, &each, 0, false};
  }
}

void UndefinedValues::Use(const Warp& warp, const Op& op, const Value& value,
                          uint32_t lanes) const {
  if (value.source) {
    return Report(warp.Here(std::countr_zero(lanes)), "uninitialised-register",
                  "uses the value of register '" + value.source->name +
                      "', which nothing has written; initialise the variable, or T.clear the "
                      "fragment, before it is read");
  }
  const Kernel& kernel = warp.cta.cluster.kernel();
  const std::string text =
      "PTX line " + std::to_string(kernel.sources[op.source].ptx_line) +
      " uses what is read here from " +
      (value.shared ? "shared memory"
                    : "an output that was allocated for a kernel, '" +
                          warp.cta.cluster.launch.global.NameOf(value.address) + "',") +
      " that nothing has written";
  ForEachLane(lanes, [&](int lane) {
    Issuer issuer = warp.Here(lane);
    issuer.op = value.load;
    WarnMemory(issuer, value.shared, text, value.address);
  });
}

void UndefinedValues::Write(uint32_t slot, uint32_t mask, const Value& result) {
  const auto found = values_.find(slot);
  const uint32_t kept = found == values_.end() ? 0 : found->second.lanes & ~mask;
  if (result.lanes) {
    Value value = result;
    value.lanes |= kept;
    values_[slot] = value;
  } else if (kept) {
    found->second.lanes = kept;
  } else if (found != values_.end()) {
    values_.erase(found);
  }
}

// Without scale-d they are written alone; else they stay what they were.
void UndefinedValues::CheckAccumulators(const Warp& warp, const Op& op, uint32_t mask) {
  const OperandUse& use = warp.cta.cluster.kernel().sources[op.source].use;
  Value fragment;
  for (uint32_t slot : use.engine_reads) {
    const auto found = values_.find(slot);
    if (found != values_.end() && (found->second.lanes & mask)) fragment = found->second;
  }
  fragment.lanes = Quads(fragment.lanes & mask);
  const bool adds = warp.Predicate(op.a[2]) & mask;
  for (uint32_t slot : use.engine_writes) {
    if (!adds || fragment.lanes) Write(slot, adds ? fragment.lanes : mask, fragment);
  }
}

void UndefinedValues::Executed(const Warp& warp, const Op& op) {
  if (stored_.empty()) return;
  const SourceLine& source = warp.cta.cluster.kernel().sources[op.source];
  const uint32_t bytes = ElementBytes(source);
  for (const Stored& each : stored_) {
    ForEachLane(each.lanes, [&](int lane) {
      uint8_t* written = WrittenAt(warp, source, lane);
      if (written) std::memset(written + size_t{each.element} * bytes, 0, bytes);
    });
  }
  stored_.clear();
}

// Takes note of those lanes that store the value where it is followed; returns the others.
uint32_t UndefinedValues::Store(const Warp& warp, const Op& op, uint32_t slot, uint32_t lanes) {
  const SourceLine& source = warp.cta.cluster.kernel().sources[op.source];
  uint32_t rest = lanes;
  ForEachLane(lanes, [&](int lane) {
    if (WrittenAt(warp, source, lane)) rest &= ~(1u << lane);
  });
  for (uint32_t k = 0; k < op.slot_count; ++k) {
    if (op.slots[k] == slot && rest != lanes) stored_.push_back({k, lanes & ~rest});
  }
  return rest;
}

void UndefinedValues::Check(const Warp& warp, const Op& op, uint32_t mask) {
  if (values_.empty()) return;
  const SourceLine& source = warp.cta.cluster.kernel().sources[op.source];
  if (!loaded_ && !source.sees_unwritten) return;
  const OperandUse& use = source.use;
  const isa::Row& row = *source.row;
  Value result;
  for (uint32_t slot : use.reads) {
    const auto found = values_.find(slot);
    if (found == values_.end()) continue;
    const uint32_t lanes = found->second.lanes & Wanted(warp, op, row.operands, slot, mask);
    if (lanes == 0) continue;
    const bool is_register = found->second.source != nullptr;
    if (is_register ? UsesRegister(row, use) : UsesLoaded(row, use)) {
      const bool stores = row.cost == isa::Cost::kStore && !is_register && !found->second.shared;
      const uint32_t used = stores ? Store(warp, op, slot, lanes) : lanes;
      if (used == 0) continue;
      Use(warp, op, found->second, used);
      found->second.lanes &= ~used;
      continue;
    }
    if (is_register && row.operands == isa::Operands::kCollective && !Multiplies(row)) continue;
    const uint32_t kept = result.lanes;
    result = found->second;
    result.lanes = kept | (Multiplies(row) ? Quads(lanes) & mask : lanes);
  }
  for (uint32_t slot : use.writes) Write(slot, mask, result);
  if (!use.engine_writes.empty()) CheckAccumulators(warp, op, mask);
}

}  // namespace tilelang::emulator
