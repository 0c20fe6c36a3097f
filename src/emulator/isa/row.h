// Describes an instruction family of PTX, beside its semantics, in one row: the class by which
// launches count it, its effects on operands and memory, its cost, the targets that have it, and
// its legal forms. A family is named by the leading components of its opcode: "add",
// "mbarrier.arrive", "cp.async.bulk.tensor". Its semantics are a decode function (core/decoder.h),
// which a file of instructions/ or async/ registers under the same name.
#ifndef TILELANG_EMULATOR_ISA_ROW_H_
#define TILELANG_EMULATOR_ISA_ROW_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "emulator/isa/instruction_class.h"
#include "emulator/isa/target.h"

namespace tilelang::emulator::isa {

// The class of a family: one, or by its modifiers.
struct ClassRule {
  enum class By : uint8_t { kNothing, kTypes, kSpace };
  InstructionClass fixed = InstructionClass::kControl;
  By by = By::kNothing;

  constexpr ClassRule(InstructionClass fixed) : fixed(fixed) {}  // NOLINT: rows name the class
  constexpr ClassRule(By by) : by(by) {}                         // NOLINT
};
inline constexpr ClassRule kByTypes = ClassRule::By::kTypes;  // of floats, else of integers
inline constexpr ClassRule kBySpace = ClassRule::By::kSpace;

// The effect on everything beside registers and local memory, for launches that cannot go on:
// nothing new happens while only instructions without effect are executed. Atomics count their
// changes.
enum class Effect : uint8_t { kNone, kWrite, kSync };

// The use of its operands, for checks of values that nothing has written.
enum class Operands : uint8_t {
  kComputed,
  kMoved,
  kSelected,
  kCollective,  // results of a lane depend on operands of others
  kTensorLoad,
  kTensorWait,
};

// The formula by which timing/op_cost.cc prices it, from the figures of the architecture.
enum class Cost : uint8_t {
  kUnset,
  kFree,  // ptxas makes no instruction of it
  kAlu,
  kSum,
  kProduct,
  kMultiplyAdd,
  kDivision,
  kBitCount,
  kSpecial,  // of the MUFU
  kComparison,
  kConversion,
  kMove,
  kSelect,
  kShuffle,
  kVote,
  kWarpReduction,
  kWarpBarrier,
  kLoad,
  kStore,
  kAtomic,
  kReduction,
  kCacheHint,
  kMatrixLoad,
  kMatrixStore,
  kThreadCopy,   // cp.async
  kBulkCopy,     // an operation of the TMA
  kAsync,        // another operation for an engine
  kWait,         // until what was issued is complete
  kEngineFence,  // between operations of one engine
  kMma,
  kWmma,
  kWgmma,
  kTensorLoad,
  kTensorLoadWait,
  kTensorStore,
  kTensorAlloc,
  kTensorDealloc,
  kBarrier,
  kMbarrier,
  kMbarrierWait,
  kFence,
  kBranch,
  kOther,
};

// Targets from one on, or `only` some, separated by spaces.
struct Targets {
  Target from = {};
  const char* only = nullptr;

  constexpr Targets() = default;
  constexpr Targets(int sm, Target::Feature feature = Target::kBase) : from{sm, feature} {}
  constexpr explicit Targets(const char* only) : only(only) {}
};

// All that the emulator accepts have what sm_75 has.
inline constexpr Targets kSm80(80), kSm86(86), kSm89(89), kSm90(90), kSm100(100);
inline constexpr Targets kSm90Family(90, Target::kFamily), kSm100Family(100, Target::kFamily);

// A target note, PTX ISA 9.0: who has it needs `needs`. `with`: it has these modifiers, or not
// (`!`), "a/b": one of them; and at least so many operands.
struct Note {
  const char* with;
  Targets needs;
  size_t operands = 0;
};

// One of these type lists takes these modifiers, in any order. `types`: alternatives apart by
// spaces; each a list "f32.f16", a position may be "f16/bf16" or a name of kNamedAlternatives.
// `modifiers`: groups apart by spaces, of each group "rn/rz" exactly one, of "ftz?" at most one.
// A list of forms that rows share stands in for one.
struct Form {
  const char* types = nullptr;
  const char* modifiers = nullptr;
  const Form* shared = nullptr;
  size_t shared_count = 0;

  constexpr Form(const char* types, const char* modifiers) : types(types), modifiers(modifiers) {}
  template <size_t count>
  constexpr Form(const Form (&forms)[count]) : shared(forms), shared_count(count) {}  // NOLINT
};

// How closely an instruction's results match those of a GPU.
enum class Fidelity : uint8_t {
  kExact,        // the same bits, or the same effect on memory and order
  kApproximate,  // results may differ in their last bits
  kNoEffect,     // it is checked, and does nothing
};

// Says that forms with one of the modifiers `with` ("approx/full"; "": all forms) are not exact.
struct Difference {
  Fidelity fidelity = Fidelity::kExact;
  const char* with = "";
  const char* why = "";
};

struct Row {
  const char* families;  // that differ in their names alone, apart by spaces
  ClassRule kind;
  Cost cost = Cost::kUnset;
  Effect effect = Effect::kNone;
  Operands operands = Operands::kComputed;
  Targets targets = {};
  std::initializer_list<Note> notes = {};
  // None: the decode function checks its modifiers alone.
  std::initializer_list<Form> forms = {};
  Difference differs = {};
};

// Every row names its families and how they are priced.
constexpr bool AllSet(std::span<const Row> rows) {
  for (const Row& row : rows) {
    if (!row.families || !*row.families || row.cost == Cost::kUnset) return false;
  }
  return true;
}

// The rows, by area.
std::span<const Row> ArithmeticRows();
std::span<const Row> MoveRows();
std::span<const Row> MemoryRows();
std::span<const Row> ControlRows();
std::span<const Row> EngineRows();

}  // namespace tilelang::emulator::isa

#endif  // TILELANG_EMULATOR_ISA_ROW_H_
