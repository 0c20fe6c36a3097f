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

// Its results are values of memory, or computed by an engine from them.
bool Loads(InstructionClass kind) {
  using C = InstructionClass;
  switch (kind) {
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
  const auto kind = [&](const Op& op) { return kernel.sources[op.source].kind; };
  const Varying varying(kernel, TellsCluster,
                        [&](uint32_t pc) { return Loads(kind(kernel.code[pc])); });
  return std::none_of(kernel.code.begin(), kernel.code.end(), [&](const Op& op) {
    // Of a jump by a table the operand tells where.
    return (op.guard != kNoSlot && varying.Has(op.guard)) ||
           (kind(op) == InstructionClass::kControl && varying.Reads(op));
  });
}

}  // namespace tilelang::emulator
