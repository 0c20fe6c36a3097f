// Rules for the elements of operands: the effect of an instruction, which follows from its
// spelling.
#ifndef TILELANG_EMULATOR_ALGEBRA_RULE_H_
#define TILELANG_EMULATOR_ALGEBRA_RULE_H_

#include <cstdint>
#include <vector>

#include "emulator/base/types.h"
#include "emulator/core/kernel.h"

namespace tilelang::emulator {

enum class RuleKind : uint8_t {
  kNothing,   // writes no register that may hold floats, or another part of the emulator follows it
  kBits,      // its results are no floats with elements
  kFloat,     // arithmetic on each lane
  kConvert,   // a cast between floats
  kMove,      // operands of the same width, source after destination
  kResize,    // a cast between integers, which keeps the bytes that both have
  kUnpack,    // of a register into several
  kPack,      // of several registers into one
  kElements,  // mov.v2, mov.v4
  kSelect,
  kSelectSign,
  kShuffle,
  kReduce,   // redux.sync of floats
  kPermute,  // prmt
  kMask,     // and, or, xor
  kShift,    // shl, shr
  kAddBits,  // of integers: a multiple of 2^23 scales an f32 by a power of two
  kLoad,
  kStore,
  kLoadMatrix,
  kStoreMatrix,
  kTransposeMatrix,
  kAtomic,
  kZeroMemory,  // st.bulk
  kMma,
  kParameter,  // ld.param of a kernel's parameter
};

enum class FloatOperation : uint8_t {
  kNone,
  kAdd,
  kSub,
  kMul,
  kFma,
  kDiv,
  kMin,
  kMax,
  kNeg,
  kAbs,
  kCopysign,
  kRcp,
  kSqrt,
  kRsqrt,
  kEx2,
  kLg2,
  kTanh,
  kSin,
  kCos,
};

// A float in a register: its type without packing, and how many a register holds.
struct FloatFormatOf {
  Type type = Type::kNone;
  int bytes = 0;
  int count = 1;
};
constexpr FloatFormatOf FloatFormatOfType(Type type) {
  switch (type) {
    case Type::kF16:
    case Type::kBF16:
      return {type, 2, 1};
    case Type::kTF32:
    case Type::kF32:
      return {Type::kF32, 4, 1};
    case Type::kF64:
      return {type, 8, 1};
    case Type::kF16x2:
      return {Type::kF16, 2, 2};
    case Type::kBF16x2:
      return {Type::kBF16, 2, 2};
    case Type::kF32x2:
      return {Type::kF32, 4, 2};
    case Type::kE4M3:
    case Type::kE5M2:
      return {type, 1, 1};
    case Type::kE4M3x2:
      return {Type::kE4M3, 1, 2};
    case Type::kE5M2x2:
      return {Type::kE5M2, 1, 2};
    default:
      return {};
  }
}

struct ElementRule {
  RuleKind kind = RuleKind::kNothing;
  FloatOperation operation = FloatOperation::kNone;
  Type type = Type::kNone;    // of the result, or of memory
  Type source = Type::kNone;  // of operands, where it differs
  Space space = Space::kGeneric;
  uint8_t vector = 1;
  uint8_t operands = 0;     // of arithmetic: sources
  bool saturates = false;   // to [0, 1]
  bool positive = false;    // negative results become 0
  bool absolute = false;    // of min and max: compares sizes
  bool xors_signs = false;  // the result has the product of the operands' signs
  bool left = false;        // of a shift; of kAddBits: adds, else it subtracts
  bool transposed = false;
  bool returns = false;  // of an atomic
  bool narrows = false;  // a cast that drops bits
};

// Returns the rules of all instructions of the kernel, in their order.
std::vector<ElementRule> RulesOf(const Kernel& kernel);

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ALGEBRA_RULE_H_
