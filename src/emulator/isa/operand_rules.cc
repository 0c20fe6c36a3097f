#include "emulator/isa/operand_rules.h"

#include <bit>

namespace tilelang::emulator {
namespace {

enum class Class : uint8_t { kPredicate, kBits, kInteger, kFloat, kPacked };

Class ClassOf(Type type) {
  switch (type) {
    case Type::kPred:
      return Class::kPredicate;
    case Type::kF16:
    case Type::kF32:
    case Type::kF64:
      return Class::kFloat;
    case Type::kU8:
    case Type::kU16:
    case Type::kU32:
    case Type::kU64:
    case Type::kS8:
    case Type::kS16:
    case Type::kS32:
    case Type::kS64:
      return Class::kInteger;
    case Type::kB8:
    case Type::kB16:
    case Type::kB32:
    case Type::kB64:
    case Type::kB128:
      return Class::kBits;
    default:
      return Class::kPacked;
  }
}

// Returns whether a register of one type may stand for the other type, apart from their widths.
bool Compatible(Type declared, Type type) {
  const Class wanted = ClassOf(type);
  Class given = ClassOf(declared);
  if (wanted == Class::kPredicate || given == Class::kPredicate) return wanted == given;
  // Registers may be declared .f16x2; integers take them too, as bits.
  if (declared == Type::kF16x2 && wanted != Class::kFloat && type != Type::kBF16x2) {
    given = Class::kBits;
  }
  if (wanted == Class::kBits || given == Class::kBits) return true;
  return wanted == Class::kInteger ? given == Class::kInteger : declared == type;
}

bool IsScalarFloat(Type type) { return type == Type::kF32 || type == Type::kF64; }

}  // namespace

std::string RegisterMismatch(const std::string& name, Type declared, Type type, bool any_width) {
  const int width = TypeBits(declared), bits = TypeBits(type);
  if (type == Type::kBF16) any_width = false;
  if (width != bits && !(any_width && width > bits)) {
    return "register '" + name + "' of " + std::to_string(width) + " bits where " +
           std::to_string(bits) + " are expected";
  }
  const bool widened = width != bits && ClassOf(type) == Class::kFloat;
  if (Compatible(declared, type) && !(widened && ClassOf(declared) != Class::kBits)) return "";
  return "register '" + name + "' is declared ." + TypeName(declared) + " where ." +
         TypeName(type) + " is expected";
}

std::string ConstantMismatch(const ptx::Operand& operand, Type type) {
  const std::string expected = std::string(" where .") + TypeName(type) + " is expected";
  if (operand.kind != ptx::Operand::Kind::kFloat) {
    const bool takes = ClassOf(type) != Class::kFloat && ClassOf(type) != Class::kPacked;
    return takes ? "" : "an integer constant" + expected;
  }
  if (IsScalarFloat(type)) return "";
  // A literal without 0f is one of 64 bits.
  const bool bits = ClassOf(type) == Class::kBits;
  if (bits && TypeBits(type) == (operand.float_bits == 32 ? 32 : 64)) return "";
  return "a floating-point constant" + expected;
}

uint64_t ConstantBits(const ptx::Operand& operand, Type type) {
  if (type == Type::kPred) return operand.bits != 0;
  if (operand.kind != ptx::Operand::Kind::kFloat) return operand.bits;
  double value = operand.real;
  if (operand.float_bits == 32) {
    if (TypeBits(type) == 32) return operand.bits;
    value = std::bit_cast<float>(static_cast<uint32_t>(operand.bits));
  } else if (operand.float_bits == 64) {
    value = std::bit_cast<double>(operand.bits);
  }
  if (TypeBits(type) == 64) return std::bit_cast<uint64_t>(value);
  return std::bit_cast<uint32_t>(static_cast<float>(value));
}

}  // namespace tilelang::emulator
