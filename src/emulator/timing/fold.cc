// Finds the PTX instructions for which ptxas emits no machine instruction: results that nobody
// reads, offsets that a load or store adds itself, and operations that one machine instruction does
// together.
#include <string_view>
#include <unordered_map>

#include "emulator/timing/op_cost.h"

namespace tilelang::emulator {
namespace {

struct Register {
  int writes = 0, reads = 0;
  int address_reads = 0;
  uint32_t writer = 0, reader = 0;
};

class Folder {
 public:
  Folder(const Kernel& kernel, const Figures& figures, std::vector<OpCost>& costs)
      : kernel_(kernel), figures_(figures), costs_(costs) {
    for (uint32_t pc = 0; pc < costs.size(); ++pc) Note(pc);
    block_.resize(costs.size());
    for (uint32_t pc = 1; pc < costs.size(); ++pc) {
      block_[pc] = block_[pc - 1] + (costs[pc - 1].ends_block ? 1 : 0);
    }
  }

  void Run() {
    for (uint32_t pc = 0; pc < costs_.size(); ++pc) {
      OpCost& cost = costs_[pc];
      if (cost.free || !cost.pure || kernel_.code[pc].guard != kNoSlot) continue;
      if (IsDead(pc) || IsOffset(pc) || IsJoined(pc)) cost.free = true;
    }
  }

 private:
  const OperandUse& Use(uint32_t pc) const { return kernel_.sources[kernel_.code[pc].source].use; }

  void Note(uint32_t pc) {
    const OperandUse& use = Use(pc);
    const bool accesses = costs_[pc].address != nullptr;
    const auto reads = [&](uint32_t slot) {
      Register& reg = registers_[slot & ~1u];
      ++reg.reads;
      reg.reader = pc;
      if (accesses)
        reg.address_reads += costs_[pc].address->slot == slot ||
                             (costs_[pc].source && costs_[pc].source->slot == slot);
    };
    const auto writes = [&](uint32_t slot) {
      Register& reg = registers_[slot & ~1u];
      ++reg.writes;
      reg.writer = pc;
    };
    for (const uint32_t slot : use.reads) reads(slot);
    for (const uint32_t slot : use.engine_reads) reads(slot);
    for (const uint32_t slot : use.predicate_reads) reads(slot);
    if (kernel_.code[pc].guard != kNoSlot) reads(kernel_.code[pc].guard);
    for (const uint32_t slot : use.writes) writes(slot);
    // An engine also reads the sum that it writes.
    for (const uint32_t slot : use.engine_writes) {
      reads(slot);
      writes(slot);
    }
    for (const uint32_t slot : use.predicate_writes) writes(slot);
  }

  bool IsDead(uint32_t pc) const {
    const OperandUse& use = Use(pc);
    if (use.writes.empty() && use.predicate_writes.empty()) return false;
    for (const uint32_t slot : use.writes) {
      if (registers_.at(slot & ~1u).reads != 0) return false;
    }
    for (const uint32_t slot : use.predicate_writes) {
      if (registers_.at(slot & ~1u).reads != 0) return false;
    }
    return true;
  }

  // Returns whether the instruction is register + constant, for addresses only.
  bool IsOffset(uint32_t pc) const {
    const Spelling s(kernel_.sources[kernel_.code[pc].source].spelling);
    const OperandUse& use = Use(pc);
    if (!s.Is("add") || IsFloatingPoint(s) || use.reads.size() != 1 || use.writes.size() != 1) {
      return false;
    }
    const Register& reg = registers_.at(use.writes[0]);
    return reg.writes == 1 && reg.reads == reg.address_reads;
  }

  static bool IsFloatingPoint(const Spelling& s) {
    return s.HasAny({"f16", "bf16", "f32", "f64", "f16x2", "bf16x2", "f32x2"});
  }

  // Returns whether the only reader of the result, in the same block, can do the operation too:
  // fma, LEA, IMAD, LOP3, IADD3. Marks the reader.
  bool IsJoined(uint32_t pc) {
    const OperandUse& use = Use(pc);
    if (use.writes.size() != 1 || !use.predicate_writes.empty()) return false;
    const Register& reg = registers_.at(use.writes[0]);
    if (reg.writes != 1 || reg.reads != 1 || reg.reader <= pc) return false;
    const Spelling first(kernel_.sources[kernel_.code[pc].source].spelling);
    const Spelling second(kernel_.sources[kernel_.code[reg.reader].source].spelling);
    // ptxas moves the conversions to the packing, also past a wait for an mbarrier between them.
    if (figures_.packs_conversions && IsHalfOfPair(first, second)) return true;
    if (joined_[reg.reader] || block_[reg.reader] != block_[pc]) return false;
    if (figures_.three_extremes && AreExtremes(first, second)) {
      // FMNMX3 joins two instructions, so neither of them may be an FMNMX3 already.
      if (joined_[pc] || use.reads.size() > 2 || Use(reg.reader).reads.size() > 2) return false;
    } else if (!Joins(first, second)) {
      return false;
    }
    joined_[reg.reader] = true;
    return true;
  }

  static bool IsLogic(const Spelling& s) {
    return (s.Is("and") || s.Is("or") || s.Is("xor") || s.Is("not")) && !s.Has("pred");
  }

  // Returns whether F2FP does both: it converts two numbers and packs them. The packing instruction
  // is the one that counts.
  static bool IsHalfOfPair(const Spelling& first, const Spelling& second) {
    return first.Is("cvt") && first.Has("f32") && first.HasAny({"f16", "bf16"}) &&
           first.Has("rn") && second.Is("mov") && second.Has("b32");
  }

  static bool AreExtremes(const Spelling& first, const Spelling& second) {
    return (first.Is("max") || first.Is("min")) && first.opcode() == second.opcode() &&
           first.Has("f32") && second.Has("f32") && first.Has("NaN") == second.Has("NaN");
  }

  static bool Joins(const Spelling& first, const Spelling& second) {
    const bool adds = second.Is("add") || second.Is("sub");
    if (first.Is("mul") && adds && IsFloatingPoint(first)) {
      return IsFloatingPoint(second) && !first.Has("rn") && !second.Has("rn");
    }
    // A sign is a modifier of an operand.
    if ((first.Is("neg") || first.Is("abs")) && IsFloatingPoint(first)) {
      return IsFloatingPoint(second) && !second.Is("cvt");
    }
    if (IsFloatingPoint(first) || IsFloatingPoint(second)) return false;
    if (adds && (first.Is("shl") || first.Is("mul") || first.Is("add"))) return true;
    if (adds && first.Is("mad")) return false;
    return IsLogic(first) && IsLogic(second);
  }

  const Kernel& kernel_;
  const Figures& figures_;
  std::vector<OpCost>& costs_;
  std::unordered_map<uint32_t, Register> registers_;
  std::unordered_map<uint32_t, bool> joined_;
  std::vector<int> block_;
};

}  // namespace

void FoldInstructions(const Kernel& kernel, const Figures& figures, std::vector<OpCost>* costs) {
  Folder(kernel, figures, *costs).Run();
}

}  // namespace tilelang::emulator
