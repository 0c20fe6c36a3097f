// The rows of PTX instructions: each names what exists, is decoded by something, and has its price
// on every architecture or a reason why not.
#include <cmath>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

#include "check.h"
#include "emulator/base/error.h"
#include "emulator/base/types.h"
#include "emulator/core/decoder.h"
#include "emulator/core/families.h"
#include "emulator/isa/family.h"
#include "emulator/isa/split.h"
#include "emulator/isa/target_notes.h"
#include "emulator/isa/work.h"
#include "emulator/timing/figures.h"
#include "emulator/timing/op_cost.h"

namespace tilelang::emulator {
namespace {

using isa::Families;
using isa::Family;
using isa::Split;

constexpr const char* kArchitectures[] = {"sm_80", "sm_90a", "sm_100a", "sm_103a"};

void CheckTargets(const isa::Targets& targets) {
  if (!targets.only) return;
  for (std::string_view name : Split(targets.only, ' ')) {
    CHECK(ParseTarget(std::string(name)).sm != 0);
  }
}

// Calls `each` with every form, the shared ones included.
template <typename Function>
void ForEachForm(std::span<const isa::Form> forms, Function each) {
  for (const isa::Form& form : forms) {
    if (form.shared) {
      ForEachForm({form.shared, form.shared_count}, each);
    } else {
      each(form);
    }
  }
}

ptx::Instruction Spelled(const std::string& text) {
  ptx::Instruction instruction;
  for (std::string_view part : Split(text, '.')) {
    if (instruction.opcode.empty()) {
      instruction.opcode = part;
    } else {
      instruction.modifiers.emplace_back(part);
    }
  }
  return instruction;
}

bool Has(const std::string& arch, const Family& family, const std::string& spelling) {
  return MissingTarget(Spelled(spelling), *family.row, ParseTarget(arch)).empty();
}

// An instruction with operands in registers and memory, as far as its price needs them.
SourceLine Source(const Family& family, const std::string& spelling) {
  SourceLine source;
  source.spelling = spelling;
  source.row = family.row;
  source.kind = isa::ClassOf(Spelled(spelling), *family.row);
  source.use.reads = {0, 32, 64};
  source.use.writes = {96};
  source.use.addresses.resize(2);
  return source;
}

TEST(EveryFamilyIsDecoded) {
  RegisterFamilies();
  std::set<std::string_view> names;
  for (const Family& family : Families()) {
    CHECK(names.insert(family.name).second);
    CHECK(FamilyRegistry::Find(family) != nullptr);
    CHECK(isa::FindFamily(family.name) == &family);
    CHECK(isa::FamilyOf(Spelled(std::string(family.name))) == &family);
  }
}

TEST(AFamilyWithoutARowIsRefused) {
  const auto add = [] { FamilyRegistry::Add("vset2", [](Decoder&) {}); };
  tilelang::testing::CheckThrows<std::logic_error>(add, "'vset2'", __FILE__, __LINE__);
  CHECK(isa::FamilyOf(Spelled("vset2.s32.u32.eq")) == nullptr);
}

TEST(TheLongestNameWins) {
  CHECK_EQ(isa::FamilyOf(Spelled("cp.async.bulk.tensor.2d.tile"))->name, "cp.async.bulk.tensor");
  CHECK_EQ(isa::FamilyOf(Spelled("cp.async.cg.shared.global"))->name, "cp.async");
  CHECK_EQ(isa::FamilyOf(Spelled("st.async.weak.b32"))->name, "st.async");
  CHECK_EQ(isa::FamilyOf(Spelled("st.global.b32"))->name, "st");
}

TEST(TargetsOfRowsExist) {
  for (const Family& family : Families()) {
    CheckTargets(family.row->targets);
    for (const isa::Note& note : family.row->notes) {
      CheckTargets(note.needs);
      CHECK(note.operands > 0 || *note.with != '\0');
    }
  }
}

TEST(FormsNameTypes) {
  for (const Family& family : Families()) {
    ForEachForm(family.row->forms, [&](const isa::Form& form) {
      for (std::string_view types : Split(form.types, ' ')) {
        for (std::string_view position : Split(types, '.')) {
          for (std::string_view name : Split(position, '/')) {
            const bool named = name == "int" || name.starts_with("any");
            if (!named && ParseType(name) == Type::kNone) {
              CHECK_EQ(std::string(name), "a type of " + std::string(family.name));
            }
          }
        }
      }
      CHECK(form.modifiers != nullptr);
    });
  }
}

// The modifiers of the first choice, where one must be: "rn/rz ftz?" is ".rn".
std::string FirstChoice(const isa::Form& form) {
  std::string text;
  for (std::string_view group : Split(form.modifiers, ' ')) {
    if (!group.ends_with('?')) text += "." + std::string(Split(group, '/').front());
  }
  const auto types = Split(form.types, ' ');
  if (types.empty()) return text;
  for (std::string_view position : Split(types.front(), '.')) {
    text += "." + std::string(Split(position, '/').front());
  }
  return text;
}

void CheckCost(const Family& family, const std::string& spelling) {
  const SourceLine source = Source(family, spelling);
  for (const char* arch : kArchitectures) {
    if (!Has(arch, family, spelling)) continue;
    try {
      const OpCost cost = CostOf(source, Op{}, *UsualGpu(arch));
      CHECK(std::isfinite(cost.cycles) && cost.cycles >= 0 && cost.latency >= 0);
      CHECK(cost.free == (cost.unit == Unit::kNone));
    } catch (const EmulatorError& error) {
      CHECK_EQ(error.kind, "unsupported");
      CHECK(std::string(error.what()).find("cannot be timed") != std::string::npos);
    }
  }
}

TEST(EveryRowHasItsPrice) {
  for (const Family& family : Families()) {
    const std::string name(family.name);
    CHECK(family.row->cost != isa::Cost::kUnset);
    CheckCost(family, name);
    ForEachForm(family.row->forms,
                [&](const isa::Form& form) { CheckCost(family, name + FirstChoice(form)); });
  }
}

TEST(OnlyWmmaAndSparseProductsHaveNone) {
  for (const char* arch : kArchitectures) {
    for (const Family& family : Families()) {
      const std::string name(family.name);
      if (!Has(arch, family, name)) continue;
      const bool refused = name.starts_with("wmma") || name.find(".sp") != std::string::npos;
      try {
        CostOf(Source(family, name), Op{}, *UsualGpu(arch));
        CHECK(!refused);
      } catch (const EmulatorError&) {
        CHECK(refused);
      }
    }
  }
}

TEST(StoresToLocalMemoryChangeNothingForOthers) {
  const auto effect = [](const std::string& spelling) {
    const ptx::Instruction instruction = Spelled(spelling);
    const isa::Row& row = *isa::FamilyOf(instruction)->row;
    return static_cast<int>(isa::EffectOf(row, isa::ClassOf(instruction, row)));
  };
  const int none = static_cast<int>(isa::Effect::kNone);
  const int write = static_cast<int>(isa::Effect::kWrite);
  CHECK_EQ(effect("st.local.b32"), none);
  CHECK_EQ(effect("st.param.b32"), none);
  CHECK_EQ(effect("st.b32"), write);
  CHECK_EQ(effect("st.shared::cta.b32"), write);
  CHECK_EQ(effect("ld.global.b32"), none);
  CHECK_EQ(effect("barrier.cluster.wait"), static_cast<int>(isa::Effect::kSync));
}

}  // namespace
}  // namespace tilelang::emulator
