// The number in one half of a word, tl_templates/cuda/word_halves.h, and the word itself.
#include <optional>
#include <string>

#include "codegen/expr_printer.h"

namespace tilelang {

using namespace ir;  // NOLINT(google-build-using-namespace)

namespace {

bool IsWord(DType t) { return IsIntegral(t) && t.bits == 32; }

// Returns the truth table of lop3.b32 for an operation on two operands; nullopt for other
// operations.
std::optional<int> Table(BinaryOp op, int a, int b) {
  switch (op) {
    case BinaryOp::kBitAnd:
      return a & b;
    case BinaryOp::kBitOr:
      return a | b;
    case BinaryOp::kBitXor:
      return a ^ b;
    default:
      return std::nullopt;
  }
}

// (value op constant) op constant.
struct TwoConstants {
  const BinaryNode* inner;
  int table;
};

std::optional<TwoConstants> FindTwoConstants(const Expr& e) {
  const auto* outer = e.as<BinaryNode>();
  if (outer == nullptr || !AsInt(outer->b)) return std::nullopt;
  const auto* inner = outer->a.as<BinaryNode>();
  if (inner == nullptr || !AsInt(inner->b)) return std::nullopt;
  constexpr int kA = 0xf0, kB = 0xcc, kC = 0xaa;
  std::optional<int> first = Table(inner->Op(), kA, kB);
  std::optional<int> both = first ? Table(outer->Op(), *first, kC) : std::nullopt;
  if (!both) return std::nullopt;
  return TwoConstants{inner, *both};
}

}  // namespace

std::optional<ExprText> ExprPrinter::HalfOfWord(const CallNode* op) {
  const auto* cast = op->args[0].as<CastNode>();
  if (!IsFloat(op->dtype) || op->dtype.bits != 16 || cast == nullptr) return std::nullopt;
  // A conversion to a number of another kind is none of bits.
  if (!IsIntegral(cast->dtype) || cast->dtype.bits != 16) return std::nullopt;
  if (!IsWord(cast->value.dtype())) return std::nullopt;
  const auto* shift = cast->value.as<BinaryNode>();
  bool upper = shift != nullptr && shift->Op() == BinaryOp::kShr && IsConst(shift->b, 16);
  UseHeader("word_halves.h");
  std::string name = upper ? "tl::upper_half<" : "tl::lower_half<";
  return ExprText{name + Type(op->dtype) + ">(" + Word(upper ? shift->a : cast->value) + ")"};
}

std::string ExprPrinter::Word(const Expr& e) {
  const auto* call = e.as<CallNode>();
  if (call != nullptr && call->Is(Builtin::kReinterpret) && IsWord(call->args[0].dtype())) {
    return Word(call->args[0]);
  }
  if (const auto* select = e.as<SelectNode>()) {
    return Operand(select->condition, kPrecTernary + 1) + " ? " + Word(select->true_value) + " : " +
           Word(select->false_value);
  }
  auto found = FindTwoConstants(e);
  if (!found) return Print(e);
  const auto* outer = e.as<BinaryNode>();
  return "tl::lop3<" + std::to_string(found->table) + ">(" + Print(found->inner->a) + ", " +
         Print(found->inner->b) + ", " + Print(outer->b) + ")";
}

}  // namespace tilelang
