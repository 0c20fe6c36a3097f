// Turning parsed instructions into Ops: the decode functions of families and the services a
// family's decode function uses.
#ifndef TILELANG_EMULATOR_CORE_DECODER_H_
#define TILELANG_EMULATOR_CORE_DECODER_H_

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/base/error.h"
#include "emulator/base/types.h"
#include "emulator/core/kernel.h"
#include "emulator/core/op.h"
#include "emulator/ptx/ast.h"

namespace tilelang::emulator {

namespace isa {
struct Family;
}
class FunctionDecoder;

// The modifiers of one instruction as a set. Every modifier must be taken by the family's decode
// function; what is left over is reported as unsupported, never ignored.
class Modifiers {
 public:
  explicit Modifiers(std::vector<std::string> names) : names_(std::move(names)) {}
  // True, and removes it, if present (the first occurrence).
  bool Take(std::string_view name);
  // Takes whichever of `names` is present; `fallback` if none.
  std::string TakeOneOf(std::initializer_list<std::string_view> names,
                        std::string_view fallback = "");
  // TakePrefix("kind::") -> "f16"; empty if none.
  std::string TakePrefix(std::string_view prefix);
  // Takes the first modifier that is a type; kNone if none.
  Type TakeType();
  // .v2/.v4/.v8, else 1.
  int TakeVector();
  // .global/.shared/.shared::cta/.shared::cluster/.local/.param[::entry|::func]/.const;
  // kGeneric if none.
  Space TakeSpace();
  bool Has(std::string_view name) const;
  const std::vector<std::string>& rest() const { return names_; }

 private:
  std::vector<std::string> names_;
};

// Given to the decode function of a family; one per instruction.
class Decoder {
 public:
  Decoder(FunctionDecoder& function, const ptx::Instruction& instruction, const isa::Family& family,
          Op& op);

  const ptx::Instruction& inst;
  const isa::Family& family;
  Modifiers mods;  // without the ones that named the family
  Op& op;

  size_t size() const { return inst.operands.size(); }
  bool Has(size_t i) const { return i < inst.operands.size(); }
  const ptx::Operand& operand(size_t i);  // error if absent

  // Slots. Source: register, immediate, special register or symbol address converted to `type`.
  // Registers and constants must fit the type (isa/operand_rules.h); `any_width` allows wider
  // registers (ld, st, cvt).
  uint32_t Source(const ptx::Operand& operand, Type type, bool any_width = false);
  uint32_t Destination(const ptx::Operand& operand, Type type, bool any_width = false);
  // Predicate source (with `!`), or a constant 0/1.
  uint32_t Predicate(const ptx::Operand& operand);
  uint32_t PredicateDestination(const ptx::Operand& operand);  // kNoSlot for `_`
  // Width in bits of the register named by this operand; 0 if it is no register.
  int RegisterBits(const ptx::Operand& operand);
  // [base + offset]; extra coordinates of TMA addresses are in operand.elements[1..].
  AddressOperand Address(const ptx::Operand& operand);
  // Offset of [param + offset] in the kernel's parameters; checks that `bytes` are there.
  int64_t ParameterOffset(const ptx::Operand& operand, uint32_t bytes);
  // A compile-time integer; error if it is not an immediate.
  int64_t Integer(const ptx::Operand& operand);
  // Elements of {a, b, c}, or the operand itself.
  std::vector<const ptx::Operand*> Elements(const ptx::Operand& operand);
  // Returns the `count` elements of {a, b, c}; `what` names them in the plural. Without braces it
  // is an error.
  std::vector<const ptx::Operand*> Vector(const ptx::Operand& operand, int count,
                                          const std::string& what);
  uint32_t Constant(Type type, uint64_t bits);
  // A register of this instruction alone, for values that live across its retries.
  uint32_t Temporary(Type type);

  // Appends to op.slots / op.a.
  void Push(uint32_t slot) { slots.push_back(slot); }
  void PushSource(size_t i, Type type) { Push(Source(operand(i), type)); }
  void PushDestination(size_t i, Type type) { Push(Destination(operand(i), type)); }

  // Family data that lives as long as the kernel; sets op.extra.
  template <typename T>
  T& MakeExtra(T value = {}) {
    auto owned = std::make_shared<T>(std::move(value));
    op.extra = owned.get();
    Own(owned);
    return *owned;
  }

  // kernel traits that the scheduler must know
  void MarkCommunicates();  // values may flow between CTAs through global memory
  void MarkUnordered();     // what is in memory in the end depends on the order of CTAs

  // EmulatorError with this instruction's line.
  [[noreturn]] void Unsupported(const std::string& what);
  [[noreturn]] void Unsupported();  // this instruction with these modifiers
  [[noreturn]] void Illegal(const std::string& what);

  // Refuses an instruction if the family's decode function has left a modifier or an operand.
  void CheckComplete();

  FunctionDecoder& function() { return function_; }
  std::vector<uint32_t> slots;
  OperandUse use;  // filled by Source, Destination and Address

 private:
  void CheckRegister(const std::string& name, Type declared, Type type, bool any_width);
  void CheckSpecial(const std::string& name, Type type);
  void Own(std::shared_ptr<void> data);
  FunctionDecoder& function_;
  size_t operands_taken_ = 0;
};

using DecodeFunction = void (*)(Decoder& decoder);

// The decode functions of families (isa/family.h): each has a row. After the name of the family
// come its modifiers, in any order.
class FamilyRegistry {
 public:
  // std::logic_error if no row has that name.
  static void Add(std::string_view name, DecodeFunction decode);
  static DecodeFunction Find(const isa::Family& family);  // nullptr if there is none
};

// Every file of handlers defines one such function and lists it in core/families.cc.
using RegisterFunction = void (*)();

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_CORE_DECODER_H_
