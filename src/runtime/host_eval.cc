#include "runtime/host_eval.h"

#include <tvm/ffi/error.h>

#include <algorithm>
#include <array>
#include <limits>

namespace tilelang::runtime {

namespace {

using ir::BinaryOp;
using ir::UnaryOp;

constexpr int kMaxDepth = 256;

int64_t FloorDiv(int64_t a, int64_t b) {
  if (b == 0) {
    throw tvm::ffi::Error("tilelang.ArgumentError",
                          "a grid or an extent is divided by an argument that is zero", "");
  }
  int64_t q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}

int64_t Apply(BinaryOp op, int64_t a, int64_t b) {
  switch (op) {
    case BinaryOp::kAdd:
      return a + b;
    case BinaryOp::kSub:
      return a - b;
    case BinaryOp::kMul:
      return a * b;
    case BinaryOp::kDiv:
    case BinaryOp::kFloorDiv:
      return FloorDiv(a, b);
    case BinaryOp::kFloorMod:
      return a - FloorDiv(a, b) * b;
    case BinaryOp::kMin:
      return std::min(a, b);
    case BinaryOp::kMax:
      return std::max(a, b);
    case BinaryOp::kEq:
      return a == b;
    case BinaryOp::kNe:
      return a != b;
    case BinaryOp::kLt:
      return a < b;
    case BinaryOp::kLe:
      return a <= b;
    case BinaryOp::kGt:
      return a > b;
    case BinaryOp::kGe:
      return a >= b;
    case BinaryOp::kAnd:
      return a && b;
    case BinaryOp::kOr:
      return a || b;
    case BinaryOp::kBitAnd:
      return a & b;
    case BinaryOp::kBitOr:
      return a | b;
    case BinaryOp::kBitXor:
      return a ^ b;
    case BinaryOp::kShl:
      return a << b;
    case BinaryOp::kShr:
      return a >> b;
  }
  return 0;
}

int64_t Apply(UnaryOp op, int64_t a) {
  switch (op) {
    case UnaryOp::kNeg:
      return -a;
    case UnaryOp::kNot:
      return !a;
    case UnaryOp::kBitNot:
      return ~a;
  }
  return 0;
}

[[noreturn]] void Unsupported(const std::string& why) {
  throw tvm::ffi::Error("tilelang.UnsupportedError", "a grid, a shape or a stride " + why, "");
}

// Infix, or a call for the operators that are spelled as functions.
std::string Spell(BinaryOp op, const std::string& a, const std::string& b) {
  std::string spelling = ir::Spelling(op);
  if (op == BinaryOp::kMin || op == BinaryOp::kMax) return spelling + "(" + a + ", " + b + ")";
  return "(" + a + " " + spelling + " " + b + ")";
}

std::string StripParentheses(const std::string& text) {
  bool wrapped = text.size() > 2 && text.front() == '(' && text.back() == ')';
  return wrapped ? text.substr(1, text.size() - 2) : text;
}

}  // namespace

int VarSlots::Intern(const ir::VarNode* var) {
  auto [position, inserted] = slots_.try_emplace(var, size());
  if (inserted) names_.push_back(var->name);
  return position->second;
}

HostProgram::HostProgram(const ir::Expr& expr, VarSlots* slots) {
  text_ = StripParentheses(Emit(expr, slots));
  int bits = expr.dtype().bits - (ir::IsInt(expr.dtype()) ? 1 : 0);
  max_value_ = bits >= 63 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << bits) - 1;
  // Every instruction pushes one value at most.
  if (code_.size() > kMaxDepth) Unsupported("has too many operations for the host");
}

std::string HostProgram::Emit(const ir::Expr& expr, VarSlots* slots) {
  if (auto* imm = expr.as<ir::IntImmNode>()) {
    code_.push_back({Kind::kConstant, imm->value});
    return std::to_string(imm->value);
  }
  if (auto* var = expr.as<ir::VarNode>()) {
    code_.push_back({Kind::kVariable, slots->Intern(var)});
    return var->name;
  }
  if (auto* binary = expr.as<ir::BinaryNode>()) {
    std::string a = Emit(binary->a, slots);
    std::string b = Emit(binary->b, slots);
    code_.push_back({Kind::kBinary, binary->op});
    return Spell(binary->Op(), a, b);
  }
  if (auto* unary = expr.as<ir::UnaryNode>()) {
    std::string a = Emit(unary->a, slots);
    code_.push_back({Kind::kUnary, unary->op});
    return std::string(ir::Spelling(unary->Op())) + a;
  }
  if (auto* select = expr.as<ir::SelectNode>()) {
    std::string condition = Emit(select->condition, slots);
    std::string a = Emit(select->true_value, slots);
    std::string b = Emit(select->false_value, slots);
    code_.push_back({Kind::kSelect, 0});
    return "(" + a + " if " + condition + " else " + b + ")";
  }
  auto* cast = expr.as<ir::CastNode>();
  if (cast != nullptr && ir::IsIntegral(cast->dtype)) return Emit(cast->value, slots);
  Unsupported(
      "uses an operation that the host does not have (it has integer arithmetic on constants, "
      "scalar parameters and symbolic dimensions)");
}

int64_t HostProgram::Evaluate(const int64_t* values) const {
  std::array<int64_t, kMaxDepth> stack;
  int top = -1;
  for (const Instruction& instruction : code_) {
    switch (instruction.kind) {
      case Kind::kConstant:
        stack[++top] = instruction.operand;
        break;
      case Kind::kVariable:
        stack[++top] = values[instruction.operand];
        break;
      case Kind::kBinary:
        --top;
        stack[top] = Apply(static_cast<BinaryOp>(instruction.operand), stack[top], stack[top + 1]);
        break;
      case Kind::kUnary:
        stack[top] = Apply(static_cast<UnaryOp>(instruction.operand), stack[top]);
        break;
      case Kind::kSelect:
        top -= 2;
        stack[top] = stack[top] ? stack[top + 1] : stack[top + 2];
        break;
    }
  }
  return stack[0];
}

int HostProgram::VariableSlot() const {
  bool plain = code_.size() == 1 && code_[0].kind == Kind::kVariable;
  return plain ? static_cast<int>(code_[0].operand) : -1;
}

}  // namespace tilelang::runtime
