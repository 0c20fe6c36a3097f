#include "arith/host_eval.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <bit>
#include <memory>

#include "ir/error.h"
#include "ir/fold.h"
#include "ir/visitor.h"

namespace tilelang::arith {

namespace ffi = tvm::ffi;
using ir::Expr;
using ir::ExprKind;

// Emits postfix code and tracks the depth of the stack it needs.
class HostCompiler {
 public:
  HostCompiler(HostProgram* program, const ir::Array<ir::Var>& vars)
      : program_(program), vars_(vars) {}

  void Output(const Expr& e, int64_t index) {
    Compile(e);
    Emit(Code::kOut, -1, e.dtype(), index);
  }

 private:
  using Code = HostProgram::Code;

  void Emit(Code code, int grow, ir::DType t, int64_t value = 0,
            ir::BinaryOp op = ir::BinaryOp::kAdd) {
    program_->code_.push_back({code, op, t, value});
    depth_ += grow;
    program_->stack_size_ = std::max(program_->stack_size_, static_cast<size_t>(depth_));
  }

  void Compile(const Expr& e) {
    switch (e->kind) {
      case ExprKind::kIntImm:
        return Emit(Code::kConst, 1, e.dtype(), *ir::AsInt(e));
      case ExprKind::kVar:
        return Emit(Code::kInput, 1, e.dtype(), IndexOf(e));
      case ExprKind::kCast:
        return CompileCast(e, static_cast<const ir::CastNode*>(e.get())->value);
      case ExprKind::kUnary:
        return CompileUnary(static_cast<const ir::UnaryNode*>(e.get()));
      case ExprKind::kBinary:
        return CompileBinary(static_cast<const ir::BinaryNode*>(e.get()));
      case ExprKind::kSelect:
        return CompileSelect(static_cast<const ir::SelectNode*>(e.get()));
      default:
        TL_CHECK(false, e.span(), "the host cannot evaluate this expression");
    }
  }

  int64_t IndexOf(const Expr& var) {
    for (size_t i = 0; i < vars_.size(); ++i) {
      if (vars_[i].same_as(var)) return static_cast<int64_t>(i);
    }
    TL_CHECK(false, var.span(),
             "variable " << std::string(static_cast<const ir::VarNode*>(var.get())->name)
                         << " has no value on the host");
    return -1;
  }

  void CompileCast(const Expr& e, const Expr& value) {
    TL_CHECK(ir::IsIntegral(e.dtype()) && ir::IsIntegral(value.dtype()), e.span(),
             "the host evaluates integers only");
    Compile(value);
    Emit(Code::kWrap, 0, e.dtype());
  }

  void CompileUnary(const ir::UnaryNode* op) {
    Compile(op->a);
    const Code codes[] = {Code::kNeg, Code::kNot, Code::kBitNot};
    Emit(codes[op->op], 0, op->dtype);
    if (op->Op() != ir::UnaryOp::kNot) Emit(Code::kWrap, 0, op->dtype);
  }

  void CompileBinary(const ir::BinaryNode* op) {
    TL_CHECK(ir::IsIntegral(op->a.dtype()), op->span, "the host evaluates integers only");
    Compile(op->a);
    Compile(op->b);
    Emit(Code::kBinary, -1, op->a.dtype(), 0, op->Op());
    if (op->dtype.bits < 64 && !ir::IsBool(op->dtype)) Emit(Code::kWrap, 0, op->dtype);
  }

  // Only the branch taken is evaluated.
  void CompileSelect(const ir::SelectNode* op) {
    Compile(op->condition);
    size_t to_false = program_->code_.size();
    Emit(Code::kJumpIfZero, -1, op->dtype);
    Compile(op->true_value);
    size_t to_end = program_->code_.size();
    Emit(Code::kJump, -1, op->dtype);
    program_->code_[to_false].value = static_cast<int64_t>(program_->code_.size());
    Compile(op->false_value);
    program_->code_[to_end].value = static_cast<int64_t>(program_->code_.size());
  }

  HostProgram* program_;
  const ir::Array<ir::Var>& vars_;
  int depth_ = 0;
};

HostProgram::HostProgram(const ir::Array<Expr>& exprs, const ir::Array<ir::Var>& vars)
    : num_inputs_(vars.size()), num_outputs_(exprs.size()) {
  HostCompiler compiler(this, vars);
  for (size_t i = 0; i < exprs.size(); ++i) compiler.Output(exprs[i], static_cast<int64_t>(i));
}

namespace {

constexpr size_t kSmallStack = 32;

int64_t Apply(ir::BinaryOp op, ir::DType t, int64_t a, int64_t b) {
  std::optional<int64_t> value = ir::FoldInt(op, t, a, b);
  if (!value) {
    TL_USER_ERROR(
        kSemantics, ir::Span(),
        "a size of the launch is not defined: " << a << " " << ir::Spelling(op) << " " << b);
  }
  return *value;
}

// a[p] = a[p] op b[p]
template <typename Op>
void ForAll(size_t count, int64_t* a, const int64_t* b, const Op& op) {
  for (size_t p = 0; p < count; ++p) a[p] = op(a[p], b[p]);
}

bool CommonValue(size_t count, const int64_t* values) {
  return std::all_of(values, values + count, [&](int64_t v) { return v == values[0]; });
}

// The exponent, where all are the same power of two.
std::optional<int> CommonShift(size_t count, const int64_t* values) {
  auto value = static_cast<uint64_t>(values[0]);
  if (values[0] <= 0 || !std::has_single_bit(value)) return std::nullopt;
  return CommonValue(count, values) ? std::optional<int>(std::countr_zero(value)) : std::nullopt;
}

void ApplyMany(ir::BinaryOp op, ir::DType t, size_t count, int64_t* a, const int64_t* b) {
  auto unsign = [](int64_t v) { return static_cast<uint64_t>(v); };
  bool divides = op == ir::BinaryOp::kFloorDiv || op == ir::BinaryOp::kFloorMod;
  // Values of 64 bits without sign may stand here as negative ones.
  bool fits = !ir::IsUInt(t) || t.bits < 64;
  std::optional<int> shift = divides && fits ? CommonShift(count, b) : std::nullopt;
  if (op == ir::BinaryOp::kShr && fits && CommonValue(count, b) && b[0] >= 0 && b[0] < t.bits) {
    shift = static_cast<int>(b[0]);
  }
  if (shift && op != ir::BinaryOp::kFloorMod) {
    return ForAll(count, a, b, [&](int64_t x, int64_t) { return x >> *shift; });
  }
  if (shift) return ForAll(count, a, b, [](int64_t x, int64_t y) { return x & (y - 1); });
  switch (op) {
    case ir::BinaryOp::kAdd:
      return ForAll(count, a, b, [&](int64_t x, int64_t y) {
        return static_cast<int64_t>(unsign(x) + unsign(y));
      });
    case ir::BinaryOp::kSub:
      return ForAll(count, a, b, [&](int64_t x, int64_t y) {
        return static_cast<int64_t>(unsign(x) - unsign(y));
      });
    case ir::BinaryOp::kMul:
      return ForAll(count, a, b, [&](int64_t x, int64_t y) {
        return static_cast<int64_t>(unsign(x) * unsign(y));
      });
    case ir::BinaryOp::kBitXor:
      return ForAll(count, a, b, [](int64_t x, int64_t y) { return x ^ y; });
    case ir::BinaryOp::kAnd:
    case ir::BinaryOp::kBitAnd:
      return ForAll(count, a, b, [](int64_t x, int64_t y) { return x & y; });
    case ir::BinaryOp::kEq:
      return ForAll(count, a, b, [](int64_t x, int64_t y) { return int64_t{x == y}; });
    case ir::BinaryOp::kNe:
      return ForAll(count, a, b, [](int64_t x, int64_t y) { return int64_t{x != y}; });
    case ir::BinaryOp::kLt:
      if (ir::IsUInt(t)) break;
      return ForAll(count, a, b, [](int64_t x, int64_t y) { return int64_t{x < y}; });
    case ir::BinaryOp::kLe:
      if (ir::IsUInt(t)) break;
      return ForAll(count, a, b, [](int64_t x, int64_t y) { return int64_t{x <= y}; });
    case ir::BinaryOp::kGe:
      if (ir::IsUInt(t)) break;
      return ForAll(count, a, b, [](int64_t x, int64_t y) { return int64_t{x >= y}; });
    default:
      break;
  }
  ForAll(count, a, b, [&](int64_t x, int64_t y) { return Apply(op, t, x, y); });
}

void WrapMany(ir::DType t, size_t count, int64_t* a) {
  bool int32 = ir::IsInt(t) && t.bits == 32;
  for (size_t p = 0; p < count; ++p) {
    a[p] = int32 ? static_cast<int32_t>(a[p]) : ir::Wrap(t, a[p]);
  }
}

}  // namespace

void HostProgram::RunMany(const Columns& inputs, size_t count, Columns* outputs) const {
  constexpr size_t kBatch = 256;
  outputs->resize(num_outputs_);
  for (std::vector<int64_t>& column : *outputs) column.resize(count);
  bool jumps = std::any_of(code_.begin(), code_.end(), [](const Instruction& i) {
    return i.code == Code::kJump || i.code == Code::kJumpIfZero;
  });
  if (!jumps) {
    Columns stack(stack_size_, std::vector<int64_t>(kBatch));
    for (size_t first = 0; first < count; first += kBatch) {
      RunBatch(inputs, first, std::min(kBatch, count - first), &stack, outputs);
    }
    return;
  }
  std::vector<int64_t> in(num_inputs_);
  std::vector<int64_t> out(num_outputs_);
  for (size_t p = 0; p < count; ++p) {
    for (size_t i = 0; i < num_inputs_; ++i) in[i] = inputs[i][p];
    Run(in.data(), out.data());
    for (size_t k = 0; k < num_outputs_; ++k) (*outputs)[k][p] = out[k];
  }
}

void HostProgram::RunBatch(const Columns& inputs, size_t first, size_t count, Columns* stack,
                           Columns* outputs) const {
  size_t top = 0;
  for (const Instruction& i : code_) {
    int64_t* last = top > 0 ? (*stack)[top - 1].data() : nullptr;
    switch (i.code) {
      case Code::kConst:
        std::fill_n((*stack)[top++].begin(), count, i.value);
        break;
      case Code::kInput:
        std::copy_n(inputs[i.value].begin() + static_cast<int64_t>(first), count,
                    (*stack)[top++].begin());
        break;
      case Code::kBinary:
        --top;
        ApplyMany(i.op, i.dtype, count, (*stack)[top - 1].data(), last);
        break;
      case Code::kNeg:
        for (size_t p = 0; p < count; ++p) last[p] = static_cast<int64_t>(-uint64_t(last[p]));
        break;
      case Code::kBitNot:
        for (size_t p = 0; p < count; ++p) last[p] = ~last[p];
        break;
      case Code::kNot:
        for (size_t p = 0; p < count; ++p) last[p] = last[p] == 0;
        break;
      case Code::kWrap:
        WrapMany(i.dtype, count, last);
        break;
      case Code::kOut:
        std::copy_n(last, count, (*outputs)[i.value].begin() + static_cast<int64_t>(first));
        --top;
        break;
      case Code::kJumpIfZero:
      case Code::kJump:
        break;
    }
  }
}

void HostProgram::Run(const int64_t* inputs, int64_t* outputs) const {
  int64_t small[kSmallStack];
  std::unique_ptr<int64_t[]> large;
  if (stack_size_ > kSmallStack) large = std::make_unique<int64_t[]>(stack_size_);
  int64_t* top = large ? large.get() : small;  // one past the last value
  for (int64_t pc = 0; pc < static_cast<int64_t>(code_.size()); ++pc) {
    const Instruction& i = code_[pc];
    switch (i.code) {
      case Code::kConst:
        *top++ = i.value;
        break;
      case Code::kInput:
        *top++ = inputs[i.value];
        break;
      case Code::kBinary:
        --top;
        top[-1] = Apply(i.op, i.dtype, top[-1], top[0]);
        break;
      case Code::kNeg:
        top[-1] = static_cast<int64_t>(-static_cast<uint64_t>(top[-1]));
        break;
      case Code::kBitNot:
        top[-1] = ~top[-1];
        break;
      case Code::kNot:
        top[-1] = top[-1] == 0;
        break;
      case Code::kWrap:
        top[-1] = ir::Wrap(i.dtype, top[-1]);
        break;
      case Code::kJumpIfZero:
        if (*--top == 0) pc = i.value - 1;
        break;
      case Code::kJump:
        pc = i.value - 1;
        break;
      case Code::kOut:
        outputs[i.value] = *--top;
        break;
    }
  }
}

int64_t HostEvaluate(const Expr& e, const std::function<int64_t(const ir::Var&)>& value_of) {
  ir::Array<ir::Var> vars;
  std::vector<int64_t> values;
  ir::WalkExprs(e, [&](const Expr& x) {
    if (x->kind == ExprKind::kVar) {
      vars.push_back(ir::Var(ffi::GetRef<ir::Var>(static_cast<const ir::VarNode*>(x.get()))));
      values.push_back(value_of(vars.back()));
    }
    return true;
  });
  int64_t result = 0;
  HostProgram({e}, vars).Run(values.data(), &result);
  return result;
}

}  // namespace tilelang::arith
