#include "emulator/core/decoder.h"

#include <algorithm>
#include <stdexcept>

#include "emulator/core/function_decoder.h"
#include "emulator/isa/family.h"
#include "emulator/isa/operand_rules.h"

namespace tilelang::emulator {

// --- modifiers --------------------------------------------------------------------------------

bool Modifiers::Take(std::string_view name) {
  auto found = std::find(names_.begin(), names_.end(), name);
  if (found == names_.end()) return false;
  names_.erase(found);
  return true;
}

bool Modifiers::Has(std::string_view name) const {
  return std::find(names_.begin(), names_.end(), name) != names_.end();
}

std::string Modifiers::TakeOneOf(std::initializer_list<std::string_view> names,
                                 std::string_view fallback) {
  for (std::string_view name : names) {
    if (Take(name)) return std::string(name);
  }
  return std::string(fallback);
}

std::string Modifiers::TakePrefix(std::string_view prefix) {
  for (auto it = names_.begin(); it != names_.end(); ++it) {
    if (it->compare(0, prefix.size(), prefix) != 0) continue;
    std::string rest = it->substr(prefix.size());
    names_.erase(it);
    return rest;
  }
  return "";
}

Type Modifiers::TakeType() {
  for (auto it = names_.begin(); it != names_.end(); ++it) {
    Type type = ParseType(*it);
    if (type == Type::kNone) continue;
    names_.erase(it);
    return type;
  }
  return Type::kNone;
}

int Modifiers::TakeVector() {
  if (Take("v2")) return 2;
  if (Take("v4")) return 4;
  if (Take("v8")) return 8;
  return 1;
}

Space Modifiers::TakeSpace() {
  static const std::pair<const char*, Space> kSpaces[] = {
      {"global", Space::kGlobal},      {"shared", Space::kShared},
      {"shared::cta", Space::kShared}, {"shared::cluster", Space::kShared},
      {"local", Space::kLocal},        {"param", Space::kParam},
      {"param::entry", Space::kParam}, {"param::func", Space::kParam},
      {"const", Space::kConst}};
  // Takes the state spaces in source order, because copies name their destination first.
  for (const std::string& present : names_) {
    for (const auto& [name, space] : kSpaces) {
      if (present != name) continue;
      Take(name);
      return space;
    }
  }
  return Space::kGeneric;
}

// --- operands ---------------------------------------------------------------------------------

Decoder::Decoder(FunctionDecoder& function, const ptx::Instruction& instruction,
                 const isa::Family& family, Op& op)
    : inst(instruction),
      family(family),
      mods({inst.modifiers.begin() + static_cast<ptrdiff_t>(family.modifiers),
            inst.modifiers.end()}),
      op(op),
      function_(function) {}

const ptx::Operand& Decoder::operand(size_t i) {
  if (i >= inst.operands.size()) {
    Illegal("operand " + std::to_string(i + 1) + " of '" + inst.Spelling() + "' is missing");
  }
  operands_taken_ = std::max(operands_taken_, i + 1);
  return inst.operands[i];
}

uint32_t Decoder::Constant(Type type, uint64_t bits) {
  return function_.Constant(TypeBits(type), bits);
}

uint32_t Decoder::Temporary(Type type) { return function_.NewSlot(TypeBits(type)); }

int Decoder::RegisterBits(const ptx::Operand& operand) {
  if (operand.kind != ptx::Operand::Kind::kName) return 0;
  const auto* reg = function_.FindRegister(operand.name);
  return reg ? TypeBits(reg->type) : 0;
}

void Decoder::CheckRegister(const std::string& name, Type declared, Type type, bool any_width) {
  const std::string problem = RegisterMismatch(name, declared, type, any_width);
  if (!problem.empty()) Illegal(problem + " in '" + inst.Spelling() + "'");
}

void Decoder::CheckSpecial(const std::string& name, Type type) {
  const std::string where = "special register '" + name + "' in '" + inst.Spelling() + "'";
  if ((inst.opcode != "mov" && inst.opcode != "cvt") || IsFloat(type)) {
    Illegal(where + ": only mov and cvt of integers or bits read special registers");
  }
  if (name == "%gridid") return;  // either width
  const bool wide = name == "%globaltimer" || name.ends_with("64");
  if (wide ? TypeBits(type) < 64 && inst.opcode == "mov" : TypeBits(type) >= 64) {
    Illegal(where + ": it has " + (wide ? "64" : "32") + " bits");
  }
}

uint32_t Decoder::Source(const ptx::Operand& operand, Type type, bool any_width) {
  int bits = TypeBits(type);
  switch (operand.kind) {
    case ptx::Operand::Kind::kInteger:
    case ptx::Operand::Kind::kFloat: {
      const std::string problem = ConstantMismatch(operand, type);
      if (!problem.empty()) Illegal(problem + " in '" + inst.Spelling() + "'");
      return Constant(type, ConstantBits(operand, type));
    }
    case ptx::Operand::Kind::kName:
      break;
    default:
      Illegal("an operand of '" + inst.Spelling() + "' has a form that is not allowed here");
  }
  if (type == Type::kPred) return Predicate(operand);
  if (operand.negated) Illegal("'!' before '" + operand.name + "', which is no predicate");
  if (const auto* reg = function_.FindRegister(operand.name)) {
    if (operand.offset) Illegal("register '" + operand.name + "' with an offset");
    CheckRegister(operand.name, reg->type, type, any_width);
    use.reads.push_back(reg->slot);
    return reg->slot;
  }
  if (operand.name == "WARP_SZ") {
    if (IsFloat(type)) Illegal("WARP_SZ where ." + std::string(TypeName(type)) + " is expected");
    return Constant(type, 32);
  }
  uint32_t special = function_.SpecialSlot(operand.name, bits, inst);
  if (special != kNoSlot) {
    CheckSpecial(operand.name, type);
    return special;
  }
  Placement placement;
  if (function_.FindVariable(operand.name, &placement)) {
    const bool loads = inst.opcode == "mov" || inst.opcode == "cvta" || inst.opcode == "mapa";
    if (!loads || IsFloat(type)) {
      Illegal("'" + inst.Spelling() + "' needs a register, not variable '" + operand.name +
              "': load its address with mov");
    }
    return function_.AddressSlot(placement, operand.offset, bits);
  }
  if (uint64_t address = function_.context().FunctionAddress(operand.name)) {
    if (inst.opcode != "mov" || bits != 64 || operand.offset) {
      Illegal("'" + inst.Spelling() + "' needs a register, not function '" + operand.name +
              "': load its address with mov.u64");
    }
    return Constant(type, address);
  }
  Illegal("'" + operand.name + "' is not declared");
}

uint32_t Decoder::Destination(const ptx::Operand& operand, Type type, bool any_width) {
  if (operand.kind == ptx::Operand::Kind::kSink) {
    const bool whole = &operand == &inst.operands[0];
    if ((whole && inst.opcode != "atom" && inst.opcode != "mbarrier") || inst.opcode == "shfl") {
      Illegal("'" + inst.Spelling() + "' cannot discard its result");
    }
    return Temporary(type);
  }
  if (operand.kind != ptx::Operand::Kind::kName || operand.negated || operand.offset) {
    Illegal("the destination of '" + inst.Spelling() + "' is not a register");
  }
  const auto* reg = function_.FindRegister(operand.name);
  if (!reg) Illegal("'" + operand.name + "' is not a declared register");
  CheckRegister(operand.name, reg->type, type, any_width);
  use.writes.push_back(reg->slot);
  return reg->slot;
}

uint32_t Decoder::Predicate(const ptx::Operand& operand) {
  if (operand.kind == ptx::Operand::Kind::kInteger) {
    return function_.Constant(1, operand.bits != 0) | (operand.negated ? 1u : 0u);
  }
  if (operand.kind != ptx::Operand::Kind::kName) {
    Illegal("a predicate operand of '" + inst.Spelling() + "' is not a predicate");
  }
  const auto* reg = function_.FindRegister(operand.name);
  if (operand.name == "%is_explicit_cluster" && inst.opcode == "mov") {
    return function_.SpecialSlot(operand.name, 1, inst);
  }
  if (!reg || reg->type != Type::kPred) {
    Illegal("'" + operand.name + "' is not a declared predicate register");
  }
  use.predicate_reads.push_back(reg->slot);
  return reg->slot | (operand.negated ? 1u : 0u);
}

uint32_t Decoder::PredicateDestination(const ptx::Operand& operand) {
  if (operand.kind == ptx::Operand::Kind::kSink) return kNoSlot;
  uint32_t slot = Predicate(operand);
  if (operand.kind != ptx::Operand::Kind::kName || (slot & 1)) {
    Illegal("the predicate destination of '" + inst.Spelling() + "' is not a register");
  }
  use.predicate_reads.pop_back();
  use.predicate_writes.push_back(slot);
  return slot;
}

AddressOperand Decoder::Address(const ptx::Operand& operand) {
  if (operand.kind != ptx::Operand::Kind::kAddress) {
    Illegal("an address [..] is expected in '" + inst.Spelling() + "'");
  }
  AddressOperand address;
  const ptx::Operand& base = operand.elements[0];
  if (base.kind == ptx::Operand::Kind::kInteger) {
    address.wide = true;
    address.slot = Constant(Type::kU64, base.bits + static_cast<uint64_t>(operand.offset));
    use.addresses.push_back(address);
    return address;
  }
  if (base.kind != ptx::Operand::Kind::kName) Illegal("malformed address");
  if (const auto* reg = function_.FindRegister(base.name)) {
    int bits = TypeBits(reg->type);
    if ((bits != 32 && bits != 64) || IsFloat(reg->type)) {
      Illegal("address register '" + base.name + "' is no integer of 32 or 64 bits");
    }
    use.reads.push_back(reg->slot);
    address.slot = reg->slot;
    address.wide = bits == 64;
    address.offset = operand.offset;
    use.addresses.push_back(address);
    return address;
  }
  Placement placement;
  if (!function_.FindVariable(base.name, &placement)) {
    Illegal("'" + base.name + "' is not declared");
  }
  address.wide = true;
  address.symbol_space = placement.space;
  address.slot = function_.AddressSlot(placement, operand.offset, 64);
  use.addresses.push_back(address);
  return address;
}

int64_t Decoder::ParameterOffset(const ptx::Operand& operand, uint32_t bytes) {
  Placement placement;
  if (operand.kind != ptx::Operand::Kind::kAddress ||
      !function_.FindVariable(operand.elements[0].name, &placement)) {
    Illegal("a parameter [..] is expected in '" + inst.Spelling() + "'");
  }
  const uint64_t offset = placement.address + static_cast<uint64_t>(operand.offset);
  const uint64_t size = function_.kernel().param_bytes;
  if (offset > size || bytes > size - offset || offset % bytes) {
    Illegal("a load of " + std::to_string(bytes) + " bytes at offset " +
            std::to_string(static_cast<int64_t>(offset)) + " of the kernel's " +
            std::to_string(size) + " bytes of parameters is out of bounds or misaligned");
  }
  return static_cast<int64_t>(offset);
}

int64_t Decoder::Integer(const ptx::Operand& operand) {
  if (operand.kind != ptx::Operand::Kind::kInteger) {
    Illegal("an operand of '" + inst.Spelling() + "' must be an integer constant");
  }
  return static_cast<int64_t>(operand.bits);
}

std::vector<const ptx::Operand*> Decoder::Elements(const ptx::Operand& operand) {
  if (operand.kind != ptx::Operand::Kind::kVector) return {&operand};
  std::vector<const ptx::Operand*> elements;
  for (const ptx::Operand& element : operand.elements) elements.push_back(&element);
  return elements;
}

std::vector<const ptx::Operand*> Decoder::Vector(const ptx::Operand& operand, int count,
                                                 const std::string& what) {
  if (operand.kind != ptx::Operand::Kind::kVector) {
    Illegal("'" + inst.Spelling() + "' takes its " + what + " in braces, even a single one");
  }
  if (static_cast<int>(operand.elements.size()) != count) {
    Illegal("'" + inst.Spelling() + "' needs " + std::to_string(count) + " " + what + ", not " +
            std::to_string(operand.elements.size()));
  }
  return Elements(operand);
}

void Decoder::MarkCommunicates() {
  function_.kernel().communicates = true;
  function_.kernel().couples = true;
}

void Decoder::MarkUnordered() { function_.kernel().communicates = true; }

void Decoder::Unsupported(const std::string& what) {
  function_.Error(inst, "unsupported", what + " is not implemented");
}

void Decoder::Unsupported() { Unsupported("'" + inst.Spelling() + "'"); }

void Decoder::Illegal(const std::string& what) { function_.Error(inst, "illegal-operand", what); }

void Decoder::Own(std::shared_ptr<void> data) {
  function_.kernel().owned.push_back(std::move(data));
}

void Decoder::CheckComplete() {
  if (!mods.rest().empty()) {
    Unsupported("modifier '." + mods.rest().front() + "' of '" + inst.Spelling() + "'");
  }
  const auto& names = inst.modifiers;
  if (std::find(names.begin(), names.end(), "L2::cache_hint") != names.end()) {
    // The policy comes last but for a byte mask; which policy changes nothing here.
    const bool masked = std::find(names.begin(), names.end(), "cp_mask") != names.end();
    if (!masked) Source(operand(operands_taken_), Type::kB64);
  }
  if (size() > operands_taken_) {
    Illegal("'" + inst.Spelling() + "' takes " + std::to_string(operands_taken_) +
            " operands here, but " + std::to_string(size()) + " are given");
  }
}

// --- families ---------------------------------------------------------------------------------

namespace {

// Returns the decode functions by the number of the family, nullptr for a family that nothing
// registered.
std::vector<DecodeFunction>& DecodeFunctions() {
  static std::vector<DecodeFunction> functions(isa::Families().size());
  return functions;
}

}  // namespace

void FamilyRegistry::Add(std::string_view name, DecodeFunction decode) {
  const isa::Family* family = isa::FindFamily(name);
  if (!family) {
    throw std::logic_error("no row of emulator/isa describes the family '" + std::string(name) +
                           "'");
  }
  DecodeFunctions()[family->number] = decode;
}

DecodeFunction FamilyRegistry::Find(const isa::Family& family) {
  return DecodeFunctions()[family.number];
}

}  // namespace tilelang::emulator
