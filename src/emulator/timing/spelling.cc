#include <algorithm>

#include "emulator/timing/op_cost.h"

namespace tilelang::emulator {

Spelling::Spelling(std::string_view text) {
  while (true) {
    const size_t dot = text.find('.');
    parts_.push_back(text.substr(0, dot));
    if (dot == std::string_view::npos) return;
    text.remove_prefix(dot + 1);
  }
}

bool Spelling::Has(std::string_view modifier) const {
  return std::find(parts_.begin() + 1, parts_.end(), modifier) != parts_.end();
}

bool Spelling::HasAny(std::initializer_list<std::string_view> modifiers) const {
  return std::any_of(modifiers.begin(), modifiers.end(),
                     [&](std::string_view modifier) { return Has(modifier); });
}

std::string_view Spelling::Prefixed(std::string_view prefix) const {
  for (size_t i = 1; i < parts_.size(); ++i) {
    if (parts_[i].starts_with(prefix)) return parts_[i];
  }
  return "";
}

int Spelling::ElementBits() const {
  for (size_t i = parts_.size(); i-- > 1;) {
    const Type type = ParseType(parts_[i]);
    if (type != Type::kNone) return TypeBits(type);
  }
  return 32;
}

int Spelling::AccessBytes() const {
  const std::string_view vector = Prefixed("v");
  const int count = vector == "v2" ? 2 : vector == "v4" ? 4 : vector == "v8" ? 8 : 1;
  return std::max(1, count * ElementBits() / 8);
}

}  // namespace tilelang::emulator
