// Evaluates integer expressions over symbolic variables on the host: grid dimensions, strides,
// sizes of tensor maps. Compile once, run at every launch.
#ifndef TILELANG_ARITH_HOST_EVAL_H_
#define TILELANG_ARITH_HOST_EVAL_H_

#include <functional>
#include <vector>

#include "ir/expr.h"

namespace tilelang::arith {

// Integer expressions compiled to one postfix program over the values of given variables.
// Arithmetic is that of the dtypes: results wrap to their width.
class HostProgram {
 public:
  HostProgram() = default;
  // Compiles `exprs` over `vars`. InternalError for a variable that is not in `vars` and for what
  // the host cannot evaluate (loads, calls, floating point).
  HostProgram(const ir::Array<ir::Expr>& exprs, const ir::Array<ir::Var>& vars);

  size_t num_inputs() const { return num_inputs_; }
  size_t num_outputs() const { return num_outputs_; }
  // inputs[i] is the value of vars[i]; outputs[k] becomes the value of exprs[k].
  // A division by zero is a SemanticsError.
  void Run(const int64_t* inputs, int64_t* outputs) const;
  // Evaluates at `count` points: inputs[i][p] and outputs[k][p] belong to point p. Resizes the
  // outputs.
  using Columns = std::vector<std::vector<int64_t>>;
  void RunMany(const Columns& inputs, size_t count, Columns* outputs) const;

 private:
  friend class HostCompiler;
  enum class Code : uint8_t {
    kConst,
    kInput,
    kBinary,
    kNeg,
    kBitNot,
    kNot,
    kWrap,
    kJumpIfZero,  // takes the condition from the stack
    kJump,
    kOut,
  };
  struct Instruction {
    Code code;
    ir::BinaryOp op;  // kBinary
    ir::DType dtype;  // of the operands of kBinary; the type that kWrap wraps to
    int64_t value;    // the constant; which input or output; where a jump goes
  };

  // Points first to first + count, of a program without jumps, on columns for its stack.
  void RunBatch(const Columns& inputs, size_t first, size_t count, Columns* stack,
                Columns* outputs) const;

  std::vector<Instruction> code_;
  size_t num_inputs_ = 0;
  size_t num_outputs_ = 0;
  size_t stack_size_ = 0;
};

// The value of one expression, with variables looked up by `value_of`.
int64_t HostEvaluate(const ir::Expr& e, const std::function<int64_t(const ir::Var&)>& value_of);

}  // namespace tilelang::arith

#endif  // TILELANG_ARITH_HOST_EVAL_H_
