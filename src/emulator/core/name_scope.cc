#include "emulator/core/name_scope.h"

#include <cctype>
#include <charconv>

namespace tilelang::emulator {
namespace {

bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)); }

// Length of a name without the digits at its end.
size_t StemOf(const std::string& name) {
  size_t stem = name.size();
  while (stem > 0 && IsDigit(name[stem - 1])) --stem;
  return stem;
}

// The number that the digits from `stem` on write; -1 if there are none or too many.
int64_t NumberOf(const std::string& name, size_t stem) {
  int64_t value = -1;
  const auto [end, error] = std::from_chars(name.data() + stem, name.data() + name.size(), value);
  return error == std::errc() ? value : -1;
}

}  // namespace

const NameScope::Declaration* NameScope::Find(const std::string& name) const {
  if (const Declaration* range = FindRange(name)) return range;
  const auto found = names_.find(name);
  return found != names_.end() ? &found->second : nullptr;
}

const NameScope::Declaration* NameScope::FindRange(const std::string& name) const {
  const size_t stem = StemOf(name);
  if (stem == name.size()) return nullptr;
  const auto range = ranges_.find(name.substr(0, stem));
  if (range == ranges_.end()) return nullptr;
  const int64_t number = NumberOf(name, stem);
  return number >= 0 && number < range->second.range ? &range->second : nullptr;
}

std::string NameScope::FirstTaken(const std::string& name, int range) const {
  if (range < 0) return Find(name) ? name : "";
  if (ranges_.count(name)) return name + "<>";
  // As in ptxas, a range hides names before it whose number begins with a zero.
  for (auto it = names_.lower_bound(name + '1'); it != names_.end(); ++it) {
    if (it->first.compare(0, name.size(), name) != 0 || !IsDigit(it->first[name.size()])) break;
    const int64_t number = NumberOf(it->first, name.size());
    if (StemOf(it->first) == name.size() && number >= 0 && number < range) return it->first;
  }
  return "";
}

std::string NameScope::Declare(const ptx::Variable& variable) {
  const std::string taken = FirstTaken(variable.name, variable.range);
  if (!taken.empty()) return taken;
  const Declaration declaration{variable.type, variable.vector, variable.is_register,
                                variable.range};
  (variable.range < 0 ? names_ : ranges_)[variable.name] = declaration;
  return "";
}

}  // namespace tilelang::emulator
