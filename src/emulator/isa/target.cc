#include "emulator/isa/target.h"

#include <charconv>
#include <string_view>

namespace tilelang::emulator {

Target ParseTarget(const std::string& name) {
  Target target;
  if (name.compare(0, 3, "sm_") != 0) return target;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + 3, end, target.sm);
  const std::string_view suffix(rest, static_cast<size_t>(end - rest));
  if (error != std::errc() || (suffix != "" && suffix != "a" && suffix != "f")) return {};
  target.feature = suffix == "a"   ? Target::kArchitecture
                   : suffix == "f" ? Target::kFamily
                                   : Target::kBase;
  return target;
}

std::string TargetName(const Target& target) {
  const char* suffix = target.feature == Target::kArchitecture ? "a"
                       : target.feature == Target::kFamily     ? "f"
                                                               : "";
  return "sm_" + std::to_string(target.sm) + suffix;
}

bool RunsOn(const Target& target, const Target& device) {
  if (target.feature == Target::kArchitecture) return target.sm == device.sm;
  if (target.feature == Target::kFamily && target.sm / 10 != device.sm / 10) return false;
  return target.sm > 0 && target.sm <= device.sm;
}

}  // namespace tilelang::emulator
