// The lists in the texts of rows.
#ifndef TILELANG_EMULATOR_ISA_SPLIT_H_
#define TILELANG_EMULATOR_ISA_SPLIT_H_

#include <algorithm>
#include <string_view>
#include <vector>

namespace tilelang::emulator::isa {

// Calls `each` with the parts of `text` between separators until it returns false.
template <typename Function>
bool AllParts(std::string_view text, char separator, Function each) {
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (!each(text.substr(0, end))) return false;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return true;
}

inline std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  AllParts(text, separator, [&](std::string_view part) {
    parts.push_back(part);
    return true;
  });
  return parts;
}

}  // namespace tilelang::emulator::isa

#endif  // TILELANG_EMULATOR_ISA_SPLIT_H_
