// Integer expressions evaluated on the host at every launch: grids, strides, expected extents.
#ifndef TILELANG_RUNTIME_HOST_EVAL_H_
#define TILELANG_RUNTIME_HOST_EVAL_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/expr.h"

namespace tilelang::runtime {

// The slot of each variable in the array of values that programs read.
class VarSlots {
 public:
  // The slot of a variable; a new one at its first appearance.
  int Intern(const ir::VarNode* var);
  int size() const { return static_cast<int>(names_.size()); }
  const std::string& name(int slot) const { return names_[slot]; }

 private:
  std::unordered_map<const void*, int> slots_;
  std::vector<std::string> names_;
};

// An expression in postfix form: evaluating it neither allocates nor chases pointers.
class HostProgram {
 public:
  // Throws tilelang.UnsupportedError for an expression that the host cannot evaluate.
  HostProgram(const ir::Expr& expr, VarSlots* slots);

  // Values are int64. Throws tilelang.ArgumentError for a division by zero.
  int64_t Evaluate(const int64_t* values) const;

  // The slot that the expression merely reads, or -1.
  int VariableSlot() const;
  bool IsConstant() const { return code_.size() == 1 && code_[0].kind == Kind::kConstant; }
  // The expression as the user would write it: "N", "M * 2 + 1".
  const std::string& text() const { return text_; }
  // The largest value of the expression's dtype.
  int64_t max_value() const { return max_value_; }

 private:
  enum class Kind : uint8_t { kConstant, kVariable, kBinary, kUnary, kSelect };
  struct Instruction {
    Kind kind;
    int64_t operand;  // value, slot, or operator
  };
  std::string Emit(const ir::Expr& expr, VarSlots* slots);

  std::vector<Instruction> code_;
  std::string text_;
  int64_t max_value_;
};

}  // namespace tilelang::runtime

#endif  // TILELANG_RUNTIME_HOST_EVAL_H_
