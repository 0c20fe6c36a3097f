#include "emulator/core/forms.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "emulator/base/types.h"
#include "emulator/core/form_tables.h"

namespace tilelang::emulator {
namespace {

using Names = std::vector<std::string_view>;

struct Group {  // one of `names`
  Names names;
  bool optional = false;
};

struct Rule {
  std::vector<std::vector<Names>> types;  // alternatives; each: the allowed names per position
  std::vector<Group> groups;
};

Names Split(std::string_view text, char separator) {
  Names parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

Names Alternatives(std::string_view text) {
  for (const auto& [name, expansion] : kNamedAlternatives) {
    if (text == name) return Split(expansion, '/');
  }
  return Split(text, '/');
}

Rule ParseRule(const FormRow& row) {
  Rule rule;
  for (std::string_view types : Split(row.types, ' ')) {
    rule.types.emplace_back();
    for (std::string_view position : Split(types, '.')) {
      rule.types.back().push_back(Alternatives(position));
    }
  }
  for (std::string_view group : Split(row.modifiers, ' ')) {
    const bool optional = group.ends_with('?');
    if (optional) group.remove_suffix(1);
    rule.groups.push_back({Alternatives(group), optional});
  }
  return rule;
}

const std::unordered_map<std::string_view, std::vector<Rule>>& Rules() {
  static const auto rules = [] {
    std::unordered_map<std::string_view, std::vector<Rule>> all;
    for (const auto& table : FormTables()) {
      for (const FormRow& row : table) {
        const Rule rule = ParseRule(row);
        for (std::string_view opcode : Split(row.opcodes, ' ')) all[opcode].push_back(rule);
      }
    }
    return all;
  }();
  return rules;
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

std::string FormMismatch(const ptx::Instruction& instruction, size_t in_name) {
  std::string family = instruction.opcode;
  for (size_t i = 0; i < in_name; ++i) family += "." + instruction.modifiers[i];
  const auto found = Rules().find(family);
  if (found == Rules().end()) return "";
  Names types, modifiers;
  for (size_t i = in_name; i < instruction.modifiers.size(); ++i) {
    const std::string& name = instruction.modifiers[i];
    (ParseType(name) == Type::kNone ? modifiers : types).push_back(name);
  }
  const std::string of = " in '" + instruction.Spelling() + "'";
  const Match* best = nullptr;
  std::vector<Match> matches;
  matches.reserve(found->second.size());
  for (const Rule& rule : found->second) {
    if (!TypesMatch(rule, types)) continue;
    matches.push_back(MatchModifiers(rule, modifiers));
    if (matches.back().complete) return "";
    if (!best || matches.back().taken > best->taken) best = &matches.back();
  }
  const std::string with = types.empty() ? "without a type" : "with " + Dotted(types);
  if (!best) return "'" + family + "' does not exist " + with + of;
  return best->problem + " " + with + of;
}

}  // namespace tilelang::emulator
