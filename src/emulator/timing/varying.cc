#include "emulator/timing/varying.h"

#include <algorithm>

namespace tilelang::emulator {
namespace {

bool TellsCluster(Special special) {
  using S = Special;
  switch (special) {
    case S::kCtaidX:
    case S::kCtaidY:
    case S::kCtaidZ:
    case S::kSmid:
    case S::kClusteridX:
    case S::kClusteridY:
    case S::kClusteridZ:
      return true;
    default:
      return false;
  }
}

// Returns whether the results are values of memory, or computed by an engine from such values.
bool Loads(const Kernel& kernel, uint32_t pc) {
  using C = InstructionClass;
  switch (kernel.sources[kernel.code[pc].source].kind) {
    case C::kInteger:
    case C::kFloat:
    case C::kConversion:
    case C::kMove:
    case C::kWarp:
    case C::kConstantMemory:
    case C::kBarrier:
    case C::kControl:
      return false;
    default:
      return true;
  }
}

// Returns whether the next instruction, or whether this one executes, depends on a varying value.
bool Branches(const Kernel& kernel, const Varying& varying, const Op& op) {
  const bool jumps = kernel.sources[op.source].kind == InstructionClass::kControl;
  // The operand of a jump by table selects its target.
  return (op.guard != kNoSlot && varying.Has(op.guard)) || (jumps && varying.Reads(op));
}

}  // namespace

bool Varying::Reads(const Op& op) const {
  const auto has = [&](uint32_t slot) { return Has(slot); };
  const OperandUse& use = kernel_.sources[op.source].use;
  return std::any_of(use.reads.begin(), use.reads.end(), has) ||
         std::any_of(use.predicate_reads.begin(), use.predicate_reads.end(), has) ||
         std::any_of(op.slots, op.slots + op.slot_count,
                     [&](uint32_t slot) { return slot != kNoSlot && specials_[slot & ~1u]; });
}

bool Varying::Mark(const Op& op) {
  bool changed = false;
  const OperandUse& use = kernel_.sources[op.source].use;
  for (const auto* slots : {&use.writes, &use.predicate_writes, &use.engine_writes}) {
    for (const uint32_t slot : *slots) {
      changed |= !Has(slot);
      registers_[slot & ~1u] = true;
    }
  }
  return changed;
}

void Varying::Spread(const std::vector<bool>& sources) {
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t pc = 0; pc < kernel_.code.size(); ++pc) {
      const Op& op = kernel_.code[pc];
      const bool guarded = op.guard != kNoSlot && Has(op.guard);
      if (sources[pc] || guarded || Reads(op)) changed |= Mark(op);
    }
  }
}

bool ClustersAreUniform(const Kernel& kernel) {
  const Varying varying(kernel, TellsCluster, [&](uint32_t pc) { return Loads(kernel, pc); });
  return std::none_of(kernel.code.begin(), kernel.code.end(),
                      [&](const Op& op) { return Branches(kernel, varying, op); });
}

bool MemoryDecides(const Kernel& kernel) {
  using C = InstructionClass;
  const Varying varying(
      kernel, [](Special) { return false; }, [&](uint32_t pc) { return Loads(kernel, pc); });
  return std::any_of(kernel.code.begin(), kernel.code.end(), [&](const Op& op) {
    const SourceLine& source = kernel.sources[op.source];
    // Addresses in tensor memory are loaded from where the allocation wrote them, and do not count.
    const bool tensor = source.kind == C::kTensorMemory || source.kind == C::kTensorCore;
    const bool accesses =
        !tensor && std::any_of(source.use.addresses.begin(), source.use.addresses.end(),
                               [&](const AddressOperand& at) {
                                 return at.slot != kNoSlot && varying.Has(at.slot);
                               });
    const bool asks = source.kind == C::kBarrier || source.kind == C::kAsyncCopy;
    return accesses || Branches(kernel, varying, op) || (asks && varying.Reads(op));
  });
}

}  // namespace tilelang::emulator
