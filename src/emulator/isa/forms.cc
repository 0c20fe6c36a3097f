#include "emulator/isa/forms.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "emulator/base/types.h"
#include "emulator/isa/split.h"

namespace tilelang::emulator {
namespace {

using isa::Split;
using Names = std::vector<std::string_view>;

struct Group {  // one of `names`
  Names names;
  bool optional = false;
};

struct Rule {
  std::vector<std::vector<Names>> types;  // alternatives; each: the allowed names per position
  std::vector<Group> groups;
};

constexpr struct {
  const char* name;
  const char* expansion;
} kNamedAlternatives[] = {
    {"int", "u8/s8/u16/s16/u32/s32/u64/s64"},
    {"round", "rn/rz/rm/rp"},
    {"integral", "rni/rzi/rmi/rpi"},
    {"ordered", "eq/ne/lt/le/gt/ge"},
    {"combine", "and/or/xor"},
    {"scope", "cta/cluster/gpu/sys"},
    {"space",
     "global/shared/shared::cta/shared::cluster/local/param/param::entry/param::func/const"},
    {"writable", "global/shared/shared::cta/shared::cluster/local/param/param::func"},
    {"sharable", "global/shared/shared::cta/shared::cluster"},
    {"atomic", "relaxed/acquire/release/acq_rel"},
    {"any8", "b8/u8/s8"},
    {"any16", "b16/u16/s16"},
    {"any32", "b32/u32/s32/f32"},
    {"any64", "b64/u64/s64/f64"},
    {"l1", "L1::evict_normal/L1::evict_unchanged/L1::evict_first/L1::evict_last/L1::no_allocate"},
    {"l2", "L2::evict_normal/L2::evict_first/L2::evict_last"},
    {"prefetch", "L2::64B/L2::128B/L2::256B"},
};

Names Alternatives(std::string_view text) {
  for (const auto& [name, expansion] : kNamedAlternatives) {
    if (text == name) return Split(expansion, '/');
  }
  return Split(text, '/');
}

Rule ParseRule(const isa::Form& form) {
  Rule rule;
  for (std::string_view types : Split(form.types, ' ')) {
    rule.types.emplace_back();
    for (std::string_view position : Split(types, '.')) {
      rule.types.back().push_back(Alternatives(position));
    }
  }
  for (std::string_view group : Split(form.modifiers, ' ')) {
    const bool optional = group.ends_with('?');
    if (optional) group.remove_suffix(1);
    rule.groups.push_back({Alternatives(group), optional});
  }
  return rule;
}

void AddRules(std::span<const isa::Form> forms, std::vector<Rule>* rules) {
  for (const isa::Form& form : forms) {
    if (form.shared) {
      AddRules({form.shared, form.shared_count}, rules);
    } else {
      rules->push_back(ParseRule(form));
    }
  }
}

// Returns the rules of a family.
const std::vector<Rule>& RulesOf(const isa::Family& family) {
  static const auto rules = [] {
    std::vector<std::vector<Rule>> all;
    for (const isa::Family& each : isa::Families()) {
      AddRules({each.row->forms.begin(), each.row->forms.size()}, &all.emplace_back());
    }
    return all;
  }();
  return rules[family.number];
}

bool Contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool TypesMatch(const Rule& rule, const Names& types) {
  if (rule.types.empty()) return types.empty();
  return std::any_of(rule.types.begin(), rule.types.end(), [&](const auto& alternative) {
    if (alternative.size() != types.size()) return false;
    for (size_t i = 0; i < types.size(); ++i) {
      if (!Contains(alternative[i], types[i])) return false;
    }
    return true;
  });
}

// The rule's groups take `modifiers`; else how many modifiers fit before what went wrong.
struct Match {
  bool complete = false;
  size_t taken = 0;
  std::string problem;
};

Match MatchModifiers(const Rule& rule, const Names& modifiers) {
  std::vector<bool> filled(rule.groups.size());
  Match match;
  for (std::string_view modifier : modifiers) {
    size_t i = 0;
    bool known = false;
    for (; i < rule.groups.size(); ++i) {
      if (!Contains(rule.groups[i].names, modifier)) continue;
      known = true;
      if (!filled[i]) break;
    }
    if (i == rule.groups.size()) {
      match.problem = "'." + std::string(modifier) + "' is not allowed" +
                      (known ? " together with another modifier of its kind" : "");
      return match;
    }
    filled[i] = true;
    ++match.taken;
  }
  for (size_t i = 0; i < rule.groups.size(); ++i) {
    if (filled[i] || rule.groups[i].optional) continue;
    match.problem = rule.groups[i].names.size() == 1 ? "needs" : "needs one of";
    for (std::string_view name : rule.groups[i].names) match.problem += " ." + std::string(name);
    return match;
  }
  match.complete = true;
  return match;
}

std::string Dotted(const Names& names) {
  std::string text;
  for (std::string_view name : names) text += "." + std::string(name);
  return text;
}

}  // namespace

std::string FormMismatch(const ptx::Instruction& instruction, const isa::Family& family) {
  const std::vector<Rule>& rules = RulesOf(family);
  if (rules.empty()) return "";
  Names types, modifiers;
  for (size_t i = family.modifiers; i < instruction.modifiers.size(); ++i) {
    const std::string& name = instruction.modifiers[i];
    (ParseType(name) == Type::kNone ? modifiers : types).push_back(name);
  }
  const std::string of = " in '" + instruction.Spelling() + "'";
  const Match* best = nullptr;
  std::vector<Match> matches;
  matches.reserve(rules.size());
  for (const Rule& rule : rules) {
    if (!TypesMatch(rule, types)) continue;
    matches.push_back(MatchModifiers(rule, modifiers));
    if (matches.back().complete) return "";
    if (!best || matches.back().taken > best->taken) best = &matches.back();
  }
  const std::string with = types.empty() ? "without a type" : "with " + Dotted(types);
  if (!best) return "'" + std::string(family.name) + "' does not exist " + with + of;
  return best->problem + " " + with + of;
}

}  // namespace tilelang::emulator
