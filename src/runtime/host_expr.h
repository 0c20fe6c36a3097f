// Expressions that every launch evaluates: grids, strides, expected extents.
#ifndef TILELANG_RUNTIME_HOST_EXPR_H_
#define TILELANG_RUNTIME_HOST_EXPR_H_

#include <cstdint>
#include <string>
#include <unordered_map>

#include "arith/host_eval.h"

namespace tilelang::runtime {

// The slot of each variable in the array of values that a call fills.
class VarSlots {
 public:
  // The slot of a variable; a new one at its first appearance.
  int Intern(const ir::Var& var);
  int size() const { return static_cast<int>(vars_.size()); }
  std::string name(int slot) const { return vars_[slot]->name; }
  const ir::Array<ir::Var>& vars() const { return vars_; }

 private:
  std::unordered_map<const void*, int> slots_;
  ir::Array<ir::Var> vars_;
};

// An integer expression over slots, with shortcuts for constants and plain variables.
class HostExpr {
 public:
  // Throws tilelang.UnsupportedError for what only the device can evaluate. `in_64_bits`: sums and
  // products of narrower integers do not wrap, as in the offsets of a tensor's elements.
  HostExpr(const ir::Expr& expr, VarSlots* slots, bool in_64_bits = false);

  int64_t Evaluate(const int64_t* values) const {
    if (slot_ >= 0) return values[slot_];
    if (is_constant_) return constant_;
    int64_t result;
    program_.Run(values, &result);
    return result;
  }

  // The slot that the expression merely reads, or -1.
  int VariableSlot() const { return slot_; }
  bool IsConstant() const { return is_constant_; }
  const ir::Expr& expr() const { return expr_; }
  // The expression as the user would write it: "N", "M * 2 + 1".
  std::string Text() const;

 private:
  ir::Expr expr_;
  int slot_ = -1;
  bool is_constant_ = false;
  int64_t constant_ = 0;
  arith::HostProgram program_;
};

}  // namespace tilelang::runtime

#endif  // TILELANG_RUNTIME_HOST_EXPR_H_
