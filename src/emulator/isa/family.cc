#include "emulator/isa/family.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "emulator/isa/split.h"

namespace tilelang::emulator::isa {
namespace {

// The longest name has so many modifiers.
constexpr size_t kMaxModifiers = 4;

std::unordered_map<std::string_view, const Family*> ByName() {
  std::unordered_map<std::string_view, const Family*> families;
  for (const Family& family : Families()) families.emplace(family.name, &family);
  return families;
}

}  // namespace

std::span<const Family> Families() {
  static const auto families = [] {
    std::vector<Family> all;
    for (const auto rows :
         {ArithmeticRows(), MoveRows(), MemoryRows(), ControlRows(), EngineRows()}) {
      for (const Row& row : rows) {
        for (std::string_view name : Split(row.families, ' ')) {
          const auto modifiers = static_cast<size_t>(std::count(name.begin(), name.end(), '.'));
          all.push_back({name, &row, modifiers, all.size()});
        }
      }
    }
    return all;
  }();
  return families;
}

const Family* FindFamily(std::string_view name) {
  static const auto families = ByName();
  const auto found = families.find(name);
  return found == families.end() ? nullptr : found->second;
}

const Family* FamilyOf(const ptx::Instruction& instruction) {
  const Family* longest = nullptr;
  std::string name = instruction.opcode;
  for (size_t i = 0;; ++i) {
    if (const Family* family = FindFamily(name)) longest = family;
    if (i >= instruction.modifiers.size() || i >= kMaxModifiers) return longest;
    name += "." + instruction.modifiers[i];
  }
}

}  // namespace tilelang::emulator::isa
