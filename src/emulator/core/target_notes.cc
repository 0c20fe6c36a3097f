#include "emulator/core/target_notes.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "emulator/base/error.h"
#include "emulator/core/kernel.h"

namespace tilelang::emulator {
namespace {

// A form of an instruction: `opcode` are its first components, `with` others that it has in any
// place, or has not (`!`), and it has at least so many operands. "" is any opcode.
struct Note {
  const char* opcode;
  const char* with;
  Target needs;
  size_t operands = 0;
  // If it is not for all later targets: those that have it.
  const char* only = nullptr;
};

constexpr Target kSm80{80}, kSm86{86}, kSm89{89}, kSm90{90}, kSm100{100};
constexpr Target kSm90Family{90, Target::kFamily}, kSm100Family{100, Target::kFamily};
constexpr Target kSm100a{100, Target::kArchitecture};
// As ptxas 13 accepts them.
constexpr const char* kWithTensorMemory =
    "sm_100a sm_100f sm_101a sm_101f sm_103a sm_103f sm_110a sm_110f";
constexpr const char* kOneWithTensorMemory = "sm_100a sm_101a sm_103a sm_110a";
constexpr const char* kWithBlockScaledMma = "sm_120a sm_120f sm_121a sm_121f";

// PTX ISA 9.0, "Target ISA Notes" of each instruction; nothing that sm_75 has is listed.
constexpr Note kNotes[] = {
    // Any instruction.
    {"", "cluster", kSm90},
    {"", "shared::cluster", kSm90},
    {"", "multicast::cluster", kSm90},
    {"", "L2::cache_hint", kSm80},
    // Memory.
    {"ld", "v8", kSm100},
    {"ld", "v4 b64", kSm100},
    {"ld", "v4 u64", kSm100},
    {"ld", "v4 s64", kSm100},
    {"ld", "v4 f64", kSm100},
    {"st", "v8", kSm100},
    {"st", "v4 b64", kSm100},
    {"st", "v4 u64", kSm100},
    {"st", "v4 s64", kSm100},
    {"st", "v4 f64", kSm100},
    {"st.async", "", kSm90},
    {"st.async", "release", kSm100},
    {"red.async", "release", kSm100},
    {"red.async", "gpu", kSm100},
    {"red.async", "sys", kSm100},
    {"st.bulk", "", kSm100},
    {"red.async", "", kSm90},
    {"multimem", "", kSm90},
    {"atom", "bf16", kSm90},
    {"atom", "bf16x2", kSm90},
    {"atom", "b128", kSm90},
    {"atom", "v2", kSm90},
    {"atom", "v4", kSm90},
    {"atom", "v8", kSm90},
    {"red", "bf16", kSm90},
    {"red", "bf16x2", kSm90},
    {"red", "v2", kSm90},
    {"red", "v4", kSm90},
    {"red", "v8", kSm90},
    {"createpolicy", "", kSm80},
    {"applypriority", "", kSm80},
    {"discard", "", kSm80},
    {"prefetch", "tensormap", kSm90},
    {"ldmatrix", "m16n16", kSm100Family},
    {"ldmatrix", "m8n16", kSm100Family},
    {"stmatrix", "", kSm90},
    {"stmatrix", "m16n8", kSm100Family},
    {"mapa", "", kSm90},
    {"getctarank", "", kSm90},
    // Arithmetic.
    {"add", "f32x2", kSm100},
    {"add", "f32 f16", kSm100},
    {"add", "f32 bf16", kSm100},
    {"add", "bf16", kSm90},
    {"add", "bf16x2", kSm90},
    {"add", "u16x2", kSm90},
    {"add", "s16x2", kSm90},
    {"sub", "f32x2", kSm100},
    {"sub", "f32 f16", kSm100},
    {"sub", "f32 bf16", kSm100},
    {"sub", "bf16", kSm90},
    {"sub", "bf16x2", kSm90},
    {"mul", "f32x2", kSm100},
    {"mul", "bf16", kSm90},
    {"mul", "bf16x2", kSm90},
    {"fma", "f32x2", kSm100},
    {"fma", "f32 f16", kSm100},
    {"fma", "f32 bf16", kSm100},
    {"fma", "bf16", kSm80},
    {"fma", "bf16x2", kSm80},
    {"fma", "relu", kSm80},
    {"fma", "oob", kSm90},
    {"neg", "bf16", kSm80},
    {"neg", "bf16x2", kSm80},
    {"abs", "bf16", kSm80},
    {"abs", "bf16x2", kSm80},
    {"ex2", "bf16", kSm90},
    {"ex2", "bf16x2", kSm90},
    {"tanh", "bf16", kSm90},
    {"tanh", "bf16x2", kSm90},
    {"set", "bf16", kSm90},
    {"set", "bf16x2", kSm90},
    {"setp", "bf16", kSm90},
    {"setp", "bf16x2", kSm90},
    {"min", "f32", kSm100, 4},
    {"min", "NaN", kSm80},
    {"min", "xorsign", kSm86},
    {"min", "relu", kSm90},
    {"min", "f16", kSm80},
    {"min", "f16x2", kSm80},
    {"min", "bf16", kSm80},
    {"min", "bf16x2", kSm80},
    {"min", "u16x2", kSm90},
    {"min", "s16x2", kSm90},
    {"max", "f32", kSm100, 4},
    {"max", "NaN", kSm80},
    {"max", "xorsign", kSm86},
    {"max", "relu", kSm90},
    {"max", "f16", kSm80},
    {"max", "f16x2", kSm80},
    {"max", "bf16", kSm80},
    {"max", "bf16x2", kSm80},
    {"max", "u16x2", kSm90},
    {"max", "s16x2", kSm90},
    // Conversions.
    {"cvt", "bf16", kSm80},
    {"cvt", "bf16 !f32", kSm90},
    {"cvt", "bf16x2", kSm80},
    {"cvt", "f16x2", kSm80},
    {"cvt", "relu", kSm80},
    {"cvt", "tf32", kSm80},
    {"cvt", "tf32 !rna", kSm90},
    {"cvt", "tf32 satfinite !rna", kSm100},
    {"cvt", "e4m3x2", kSm89},
    {"cvt", "e5m2x2", kSm89},
    {"cvt", "e2m1x2", kSm100Family},
    {"cvt", "e2m3x2", kSm100Family},
    {"cvt", "e3m2x2", kSm100Family},
    {"cvt", "ue8m0x2", kSm100Family},
    {"cvt", "e4m3x2 bf16x2", kSm100Family},
    {"cvt", "e5m2x2 bf16x2", kSm100Family},
    {"cvt", "rs", kSm100a, 0, "sm_100a sm_103a"},
    // Warps, CTAs, clusters.
    {"elect", "", kSm90},
    {"redux", "", kSm80},
    {"redux", "f32", kSm100Family, 0, "sm_100a sm_100f sm_103a sm_103f"},
    {"setmaxnreg", "", kSm90Family},
    {"griddepcontrol", "", kSm90},
    {"clusterlaunchcontrol", "", kSm100},
    {"clusterlaunchcontrol", "multicast::cluster::all", kSm100Family},
    {"fence", "sync_restrict::shared::cta", kSm90},
    {"fence", "sync_restrict::shared::cluster", kSm90},
    {"fence", "mbarrier_init", kSm90},
    {"fence", "async", kSm90},
    {"fence", "tensormap::generic", kSm90},
    // Mbarriers.
    {"mbarrier", "", kSm80},
    {"mbarrier", "relaxed", kSm90},
    {"mbarrier", "expect_tx", kSm90},
    {"mbarrier", "complete_tx", kSm90},
    {"mbarrier", "try_wait", kSm90},
    {"mbarrier.arrive", "!noComplete", kSm90, 3},
    {"mbarrier.arrive_drop", "!noComplete", kSm90, 3},
    // Asynchronous copies.
    {"cp.async", "", kSm80},
    {"cp.async.bulk", "", kSm90},
    {"cp.async.bulk", "cp_mask", kSm100},
    {"cp.async.bulk", "cta_group::1", kSm100Family, 0, kWithTensorMemory},
    {"cp.async.bulk", "cta_group::2", kSm100Family, 0, kWithTensorMemory},
    {"cp.async.bulk", "tile::gather4", kSm100},
    {"cp.async.bulk", "tile::gather4 shared::cluster", kSm100Family, 0, kWithTensorMemory},
    {"cp.async.bulk", "tile::scatter4", kSm100Family, 0, kWithTensorMemory},
    {"cp.async.bulk", "im2col::w", kSm100},
    {"cp.async.bulk", "im2col::w::128", kSm100Family, 0, kWithTensorMemory},
    {"cp.async.bulk.prefetch", "tile::gather4", kSm100Family, 0, kWithTensorMemory},
    {"cp.async.bulk.prefetch", "im2col::w", kSm100Family, 0, kWithTensorMemory},
    {"cp.reduce", "", kSm90},
    {"tensormap", "", kSm90},
    {"tensormap.replace", "", kSm90Family},
    {"tensormap.replace", "swizzle_atomicity", kSm100Family},
    // Tensor core.
    {"mma", "", kSm80},
    {"mma", "e4m3", kSm89},
    {"mma", "e5m2", kSm89},
    {"mma", "m16n8k4 f64", kSm90},
    {"mma", "m16n8k8 f64", kSm90},
    {"mma", "m16n8k16 f64", kSm90},
    {"wgmma", "", {90, Target::kArchitecture}},
    {"tcgen05", "", kSm100Family, 0, kWithTensorMemory},
    {"tcgen05", "kind::i8", kSm100a, 0, "sm_100a sm_101a sm_110a"},
    {"tcgen05.shift", "", kSm100a, 0, kOneWithTensorMemory},
    {"tcgen05.mma", "scale_vec::1X", kSm100a, 0, kOneWithTensorMemory},
    {"tcgen05.mma", "scale_vec::2X", kSm100a, 0, kOneWithTensorMemory},
    {"tcgen05.mma", "scale_vec::4X", kSm100a, 0, kOneWithTensorMemory},
    {"tcgen05.mma", "sp kind::mxf4", kSm100a, 0, kOneWithTensorMemory},
    {"tcgen05.mma", "sp kind::mxf4nvf4", kSm100a, 0, kOneWithTensorMemory},
    {"tcgen05.ld.red", "", kSm100a, 0, "sm_101a sm_103a sm_103f sm_110a sm_110f"},
    {"mma", "block_scale", kSm100a, 0, kWithBlockScaledMma},
    {"mma", "kind::f8f6f4", kSm100Family},
    {"mma", "kind::f8f6f4 e2m1", kSm100a, 0, kWithBlockScaledMma},
    {"mma", "kind::f8f6f4 e2m3", kSm100a, 0, kWithBlockScaledMma},
    {"mma", "kind::f8f6f4 e3m2", kSm100a, 0, kWithBlockScaledMma},
};

constexpr std::string_view kSm90Registers[] = {
    "%clusterid",       "%nclusterid",       "%cluster_ctaid",       "%cluster_nctaid",
    "%cluster_ctarank", "%cluster_nctarank", "%is_explicit_cluster", "%aggr_smem_size",
};

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

bool HasOpcode(const ptx::Instruction& instruction, std::string_view opcode) {
  size_t index = 0;
  return AllParts(opcode, '.', [&](std::string_view part) {
    const size_t at = index++;
    if (at == 0) return part == instruction.opcode;
    return at <= instruction.modifiers.size() && part == instruction.modifiers[at - 1];
  });
}

bool HasForm(const ptx::Instruction& instruction, const Note& note) {
  if (instruction.operands.size() < note.operands) return false;
  if (!HasOpcode(instruction, note.opcode)) return false;
  const auto& present = instruction.modifiers;
  return AllParts(note.with, ' ', [&](std::string_view part) {
    const bool absent = part.front() == '!';
    if (absent) part.remove_prefix(1);
    return absent == (std::find(present.begin(), present.end(), part) == present.end());
  });
}

bool NamesSm90Register(const ptx::Operand& operand) {
  const std::string_view name = std::string_view(operand.name).substr(0, operand.name.find('.'));
  return std::find(std::begin(kSm90Registers), std::end(kSm90Registers), name) !=
             std::end(kSm90Registers) ||
         std::any_of(operand.elements.begin(), operand.elements.end(), NamesSm90Register);
}

std::string NameOf(const Target& target) {
  const char* suffix = target.feature == Target::kArchitecture ? "a"
                       : target.feature == Target::kFamily     ? "f"
                                                               : "";
  return "sm_" + std::to_string(target.sm) + suffix;
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

// Equal capabilities for `a`, those of the same family for `f`, else all later ones.
bool RunsOn(const Target& target, const Target& device) {
  if (target.feature == Target::kArchitecture) return target.sm == device.sm;
  if (target.feature == Target::kFamily && target.sm / 10 != device.sm / 10) return false;
  return target.sm > 0 && target.sm <= device.sm;
}

}  // namespace

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

void CheckRunsOn(const Module& module, const std::string& device) {
  if (RunsOn(ParseTarget(module.target), ParseTarget(device))) return;
  const auto line = std::find_if(
      module.lines.begin(), module.lines.end(),
      [](const std::string& text) { return text.find(".target") != std::string::npos; });
  const int number = line == module.lines.end() ? 0 : static_cast<int>(line - module.lines.begin());
  throw EmulatorError("target",
                      "a module for " + module.target + " does not run on the device, " + device,
                      module.WhereIs(number + 1, {}, {}));
}

std::string MissingTarget(const ptx::Instruction& instruction, const Target& target) {
  Target missing;
  const char* only = nullptr;
  auto need = [&](const Target& needed) {
    if (!target.Has(needed) && needed.Has(missing)) missing = needed;
  };
  for (const Note& note : kNotes) {
    if (!HasForm(instruction, note)) continue;
    if (!note.only) {
      need(note.needs);
    } else if (!IsAmong(note.only, NameOf(target))) {
      only = note.only;
    }
  }
  if (only) return OneOfTargets(only);
  if (std::any_of(instruction.operands.begin(), instruction.operands.end(), NamesSm90Register)) {
    need(kSm90);
  }
  return missing.sm == 0 ? "" : NameOf(missing) + " or higher";
}

std::string MissingOnDevice(const ptx::Instruction& instruction, const Target& device) {
  const auto& modifiers = instruction.modifiers;
  const bool multicast =
      std::find(modifiers.begin(), modifiers.end(), "multicast::cluster") != modifiers.end();
  if (device.sm / 10 == 12 && multicast) return "multicast by TMA";
  return "";
}

}  // namespace tilelang::emulator
