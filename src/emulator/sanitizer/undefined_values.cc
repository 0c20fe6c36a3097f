#include "emulator/sanitizer/undefined_values.h"

#include <bit>
#include <cstring>
#include <string>

#include "emulator/core/machine.h"
#include "emulator/core/unwritten_marks.h"
#include "emulator/core/unwritten_registers.h"
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

// Returns which bytes of the memory at a lane's operand were written, or nullptr if the memory is
// not followed.
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

// Returns whether the instruction computes or converts, so that its result is no copy of an
// operand.
bool Computes(const isa::Row& row) {
  return row.cost == isa::Cost::kSum || row.cost == isa::Cost::kProduct ||
         row.cost == isa::Cost::kMultiplyAdd || row.cost == isa::Cost::kDivision ||
         row.cost == isa::Cost::kSpecial || row.cost == isa::Cost::kConversion;
}

// Returns whether one undefined operand makes the result undefined, whatever the other operands
// are.
bool Adds(const SourceLine& source) {
  const isa::Cost cost = source.row->cost;
  const bool sums = cost == isa::Cost::kSum || cost == isa::Cost::kProduct ||
                    cost == isa::Cost::kMultiplyAdd || cost == isa::Cost::kDivision;
  return sums && source.kind == InstructionClass::kFloat;
}

// The lanes of `lanes` for which the instruction writes to global memory.
uint32_t StoresGlobal(const Warp& warp, const SourceLine& source, uint32_t lanes) {
  const isa::Cost cost = source.row->cost;
  const bool stores = cost == isa::Cost::kStore || cost == isa::Cost::kAtomic ||
                      cost == isa::Cost::kReduction ||
                      (cost == isa::Cost::kWmma && source.use.writes.empty());
  if (!stores || source.use.addresses.empty()) return 0;
  if (source.kind == InstructionClass::kGlobalMemory) return lanes;
  if (source.kind != InstructionClass::kGenericMemory) return 0;
  uint32_t result = 0;
  ForEachLane(lanes, [&](int lane) {
    const uint64_t window = source.use.addresses[0].At(warp, lane) & ~uint64_t{0xFFFFFFFF};
    if (window != kSharedWindow && window != kLocalWindow) result |= 1u << lane;
  });
  return result;
}

bool UsesLoaded(const isa::Row& row, const OperandUse& use) {
  return use.writes.empty() || row.operands == isa::Operands::kCollective;
}

}  // namespace

void UndefinedValues::Mark(const Op& op, uint32_t slot, int lane, uint64_t address, bool shared) {
  Value& value = values_[slot];
  value = {value.lanes | 1u << lane, &op, nullptr, address, shared, false};
  loaded_ = true;
}

void UndefinedValues::MarkUnwritten(const Kernel& kernel, uint32_t slot, int lane, uint8_t mark) {
  Value& value = values_[slot];
  value = {value.lanes | 1u << lane, nullptr, &UnwrittenOf(kernel, mark), 0, false};
  loaded_ = true;
}

uint8_t UndefinedValues::MarkOf(const Kernel& kernel, uint32_t slot, int lane) const {
  if (!IsUnwritten(slot, lane)) return 0;
  const UnwrittenRegister* source = values_.find(slot)->second.source;
  return RegisterMark(static_cast<size_t>(source - kernel.unwritten.data()));
}

void UndefinedValues::MarkRegisters(const Kernel& kernel, uint32_t lanes) {
  for (const UnwrittenRegister& each : kernel.unwritten) {
    values_[each.slot] = {lanes, nullptr, &each, 0, false};
  }
}

void UndefinedValues::Use(const Warp& warp, const Op& op, const Value& value,
                          uint32_t lanes) const {
  if (value.source) {
    return ReportUnwritten(warp.Here(std::countr_zero(lanes)), *value.source);
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

void UndefinedValues::Executed(const Warp& warp, const Op& op) {
  if (stored_.empty()) return;
  const SourceLine& source = warp.cta.cluster.kernel().sources[op.source];
  const uint32_t bytes = ElementBytes(source);
  for (const Stored& each : stored_) {
    ForEachLane(each.lanes, [&](int lane) {
      uint8_t* written = WrittenAt(warp, source, lane);
      if (written) std::memset(written + size_t{each.element} * bytes, each.mark, bytes);
    });
  }
  stored_.clear();
}

// Notes the lanes that store the value to memory that is followed, and returns the other lanes.
uint32_t UndefinedValues::Store(const Warp& warp, const Op& op, uint32_t slot, uint32_t lanes) {
  const SourceLine& source = warp.cta.cluster.kernel().sources[op.source];
  uint32_t rest = lanes;
  ForEachLane(lanes, [&](int lane) {
    if (WrittenAt(warp, source, lane)) rest &= ~(1u << lane);
  });
  for (uint32_t k = 0; k < op.slot_count; ++k) {
    if (op.slots[k] == slot && rest != lanes) stored_.push_back({k, lanes & ~rest, 0});
  }
  return rest;
}

// Notes the lanes that store the value of an unwritten register in shared memory.
void UndefinedValues::StoreShared(const Warp& warp, const Op& op, uint32_t slot, const Value& value,
                                  uint32_t lanes) {
  const Kernel& kernel = warp.cta.cluster.kernel();
  const SourceLine& source = kernel.sources[op.source];
  if (source.row->cost != isa::Cost::kStore || source.use.addresses.empty()) return;
  lanes &= ~StoresGlobal(warp, source, lanes);
  uint32_t shared = 0;
  ForEachLane(lanes,
              [&](int lane) { shared |= (WrittenAt(warp, source, lane) ? 1u : 0u) << lane; });
  const auto number = static_cast<size_t>(value.source - kernel.unwritten.data());
  for (uint32_t k = 0; k < op.slot_count && shared != 0; ++k) {
    if (op.slots[k] == slot) stored_.push_back({k, shared, RegisterMark(number)});
  }
}

UndefinedValues::Value* UndefinedValues::Find(uint32_t slot, bool is_register) {
  const auto found = values_.find(slot);
  if (found == values_.end() || (found->second.source != nullptr) != is_register) return nullptr;
  return &found->second;
}

bool UndefinedValues::IsUnwritten(uint32_t slot, int lane) const {
  const auto found = values_.find(slot);
  return found != values_.end() && found->second.source && (found->second.lanes >> lane & 1);
}

UndefinedValues::Value UndefinedValues::CheckLoaded(const Warp& warp, const Op& op, uint32_t mask) {
  const SourceLine& source = warp.cta.cluster.kernel().sources[op.source];
  const isa::Row& row = *source.row;
  Value result;
  for (uint32_t slot : source.use.reads) {
    Value* value = Find(slot, false);
    if (!value) continue;
    const uint32_t lanes = value->lanes & Wanted(warp, op, row.operands, slot, mask);
    if (lanes == 0) continue;
    if (!UsesLoaded(row, source.use)) {
      const uint32_t kept = result.lanes;
      const bool computed = result.computed || value->computed || Computes(row);
      result = *value;
      result.lanes = kept | lanes;
      result.computed = computed;
      continue;
    }
    const bool stores = row.cost == isa::Cost::kStore && !value->shared && !value->computed;
    const uint32_t used = stores ? Store(warp, op, slot, lanes) : lanes;
    if (used == 0) continue;
    Use(warp, op, *value, used);
    value->lanes &= ~used;
  }
  return result;
}

UndefinedValues::Value UndefinedValues::CheckRegisters(const Warp& warp, const Op& op,
                                                       uint32_t mask) {
  const SourceLine& source = warp.cta.cluster.kernel().sources[op.source];
  const isa::Row& row = *source.row;
  Value result;
  uint32_t all = mask;  // lanes in which no operand is written
  for (uint32_t slot : source.use.reads) {
    const uint32_t wanted = Wanted(warp, op, row.operands, slot, mask);
    Value* value = Find(slot, true);
    const uint32_t lanes = value ? value->lanes & wanted : 0;
    all &= lanes | ~wanted;
    if (lanes == 0) continue;
    const uint32_t kept = result.lanes;
    result = *value;
    result.lanes = kept | lanes;
    StoreShared(warp, op, slot, *value, lanes);
    const uint32_t used = StoresGlobal(warp, source, lanes);
    if (used == 0) continue;
    Use(warp, op, *value, used);
    value->lanes &= ~used;
  }
  if (row.operands == isa::Operands::kCollective) return {};
  if (!Adds(source)) result.lanes &= all;
  return result;
}

void UndefinedValues::Accumulate(const OperandUse& use, uint32_t mask) {
  std::vector<Value> results(use.writes.size());
  for (size_t k = 0; k < results.size() && results.size() == use.accumulators.size(); ++k) {
    const Value* value = Find(use.accumulators[k], true);
    if (!value) continue;
    results[k] = *value;
    results[k].lanes &= mask;
  }
  for (size_t k = 0; k < results.size(); ++k) Write(use.writes[k], mask, results[k]);
}

void UndefinedValues::Check(const Warp& warp, const Op& op, uint32_t mask) {
  if (values_.empty()) return;
  const SourceLine& source = warp.cta.cluster.kernel().sources[op.source];
  if (!loaded_ && !source.sees_unwritten) return;
  const OperandUse& use = source.use;
  Value result = loaded_ ? CheckLoaded(warp, op, mask) : Value{};
  const Value unwritten = CheckRegisters(warp, op, mask);
  if (!use.accumulators.empty()) return Accumulate(use, mask);
  if (result.lanes == 0) result = unwritten;
  for (uint32_t slot : use.writes) Write(slot, mask, result);
  // A wgmma without scale-d writes its accumulators; else they stay what they were.
  if (use.engine_writes.empty() || (warp.Predicate(op.a[2]) & mask)) return;
  for (uint32_t slot : use.engine_writes) Write(slot, mask, {});
}

void ReportUnwritten(const Issuer& issuer, const UnwrittenRegister& source) {
  const Kernel& kernel = issuer.cta->cluster.kernel();
  EmulatorError error("uninitialised-register",
                      "uses the value of register '" + source.name +
                          "', which nothing has written; initialise the variable, or T.clear the "
                          "fragment, before it is read",
                      WhereOf(issuer));
  error.earlier = PlaceOf(kernel, FirstReader(kernel, source.slot));
  issuer.cta->cluster.launch.Report(error);
}

const UnwrittenRegister& UnwrittenOf(const Kernel& kernel, uint8_t mark) {
  return kernel.unwritten[mark - kOfRegister];
}

}  // namespace tilelang::emulator
