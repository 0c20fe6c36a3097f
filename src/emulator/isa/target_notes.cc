#include "emulator/isa/target_notes.h"

#include <algorithm>
#include <string_view>

#include "emulator/isa/split.h"

namespace tilelang::emulator {
namespace {

using isa::AllParts;

// Hold for any instruction.
constexpr isa::Note kAnyNotes[] = {
    {"cluster/shared::cluster/multicast::cluster", isa::kSm90},
    {"L2::cache_hint", isa::kSm80},
};

constexpr std::string_view kSm90Registers[] = {
    "%clusterid",       "%nclusterid",       "%cluster_ctaid",       "%cluster_nctaid",
    "%cluster_ctarank", "%cluster_nctarank", "%is_explicit_cluster", "%aggr_smem_size",
};

bool HasModifier(const ptx::Instruction& instruction, std::string_view name) {
  const auto& present = instruction.modifiers;
  return std::find(present.begin(), present.end(), name) != present.end();
}

bool Holds(const isa::Note& note, const ptx::Instruction& instruction) {
  if (instruction.operands.size() < note.operands) return false;
  return AllParts(note.with, ' ', [&](std::string_view part) {
    if (part.front() == '!') return !HasModifier(instruction, part.substr(1));
    return !AllParts(part, '/',
                     [&](std::string_view name) { return !HasModifier(instruction, name); });
  });
}

bool NamesSm90Register(const ptx::Operand& operand) {
  const std::string_view name = std::string_view(operand.name).substr(0, operand.name.find('.'));
  return std::find(std::begin(kSm90Registers), std::end(kSm90Registers), name) !=
             std::end(kSm90Registers) ||
         std::any_of(operand.elements.begin(), operand.elements.end(), NamesSm90Register);
}

bool IsAmong(std::string_view names, const std::string& name) {
  return !AllParts(names, ' ', [&](std::string_view part) { return part != name; });
}

// "sm_100a, sm_103a or sm_110a".
std::string OneOfTargets(std::string_view names) {
  std::string text(names);
  for (size_t at = text.rfind(' '), last = 1; at != std::string::npos; at = text.rfind(' ', at)) {
    text.replace(at, 1, last ? " or " : ", ");
    last = 0;
    if (at == 0) break;
    --at;
  }
  return text;
}

// Finds which of several needs the target lacks. If it lacks several needs that begin with later
// targets, keeps the latest one.
class Lacks {
 public:
  explicit Lacks(const Target& target) : target_(target) {}

  void Need(const isa::Targets& needed) {
    if (needed.only) {
      if (!IsAmong(needed.only, TargetName(target_))) only_ = needed.only;
    } else if (!target_.Has(needed.from) && needed.from.Has(from_)) {
      from_ = needed.from;
    }
  }
  std::string Describe() const {
    if (only_) return OneOfTargets(only_);
    return from_.sm == 0 ? "" : TargetName(from_) + " or higher";
  }

 private:
  Target target_, from_;
  const char* only_ = nullptr;
};

}  // namespace

std::string MissingTarget(const ptx::Instruction& instruction, const isa::Row& row,
                          const Target& target) {
  Lacks lacks(target);
  for (const isa::Note& note : kAnyNotes) {
    if (Holds(note, instruction)) lacks.Need(note.needs);
  }
  lacks.Need(row.targets);
  for (const isa::Note& note : row.notes) {
    if (Holds(note, instruction)) lacks.Need(note.needs);
  }
  if (std::any_of(instruction.operands.begin(), instruction.operands.end(), NamesSm90Register)) {
    lacks.Need(isa::kSm90);
  }
  return lacks.Describe();
}

std::string MissingOnDevice(const ptx::Instruction& instruction, const Target& device) {
  const bool multicast = HasModifier(instruction, "multicast::cluster");
  return device.sm / 10 == 12 && multicast ? "multicast by TMA" : "";
}

}  // namespace tilelang::emulator
