#include "lower/approximate_functions.h"

#include <tvm/ffi/cast.h>

#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "ir/build.h"
#include "ir/effects.h"
#include "ir/intrinsics.h"
#include "ir/remark.h"
#include "ir/visitor.h"
#include "lower/limited_functions.h"
#include "lower/powers_of_two.h"

namespace tilelang::lower {

using ir::Expr;
using ir::Stmt;

namespace {

constexpr int kResultBits = 16;

bool IsFloat32(const Expr& e) { return e.dtype() == ir::dtypes::kFloat32; }

// Returns whether a function is continuous, or yields what it is given.
bool IsContinuous(const ir::CallNode* call) {
  static const std::set<std::string_view> kFunctions = {
      "exp",       "exp2",      "exp10",    "expm1",   "log",    "log2",       "log10",
      "log1p",     "sqrt",      "rsqrt",    "cbrt",    "sin",    "cos",        "tanh",
      "erf",       "erfc",      "pow",      "sigmoid", "abs",    "fabs",       "fma",
      "atan",      "__exp",     "__exp2",   "__log",   "__log2", "__sqrt",     "__rsqrt",
      "__rcp",     "min_nan",   "max_nan",  "load_or", "__tanh", "__fdividef", "tanh_fma",
      "exp2_fma3", "exp2_fma4", "exp2_fma5"};
  return kFunctions.count(std::string_view(call->name.data(), call->name.size())) != 0;
}

// Returns whether a small error of an operand leads to a small error of the value.
bool KeepsErrorsSmall(const Expr& e) {
  if (const auto* call = e.as<ir::CallNode>()) return IsContinuous(call);
  if (const auto* cast = e.as<ir::CastNode>()) {
    return !ir::IsFloat(cast->value.dtype()) ||
           (ir::IsFloat(cast->dtype) && cast->dtype.bits >= kResultBits);
  }
  const auto* op = e.as<ir::BinaryNode>();
  return op == nullptr || !ir::IsComparison(op->Op()) || !ir::IsFloat(op->a.dtype());
}

bool KeepsErrorsSmall(const Stmt& s) {
  switch (s->kind) {
    case ir::StmtKind::kReduce: {
      const std::string name(s.as<ir::ReduceNode>()->op);
      return name == "sum" || name == "max" || name == "min" || name == "abssum" ||
             name == "absmax";
    }
    case ir::StmtKind::kCopy:
      return s.as<ir::CopyNode>()->IsPlain();
    case ir::StmtKind::kSeq:
    case ir::StmtKind::kAlloc:
    case ir::StmtKind::kStore:
    case ir::StmtKind::kFill:
    case ir::StmtKind::kParallelFor:
    case ir::StmtKind::kFor:
    case ir::StmtKind::kIf:
    case ir::StmtKind::kBind:
    case ir::StmtKind::kAssume:
      return true;
    default:
      return false;
  }
}

// Constants stay: divide_rows divides by them, and ptxas by powers of two.
bool IsQuotient(const Expr& e) {
  const auto* op = e.as<ir::BinaryNode>();
  return op != nullptr && op->Op() == ir::BinaryOp::kDiv && op->b->kind != ir::ExprKind::kFloatImm;
}

bool IsApproximated(const Expr& e) {
  if (!IsFloat32(e)) return false;
  const auto* call = e.as<ir::CallNode>();
  return IsQuotient(e) || (call != nullptr && (call->name == "exp" || call->name == "exp2" ||
                                               call->name == "sigmoid"));
}

// Returns whether all results of a launch are rounded to 16 bits, and all of it keeps errors small.
bool Qualifies(const ir::KernelLaunchNode* launch) {
  bool qualifies = true;
  ir::WalkEffects(launch->body, [&](const ir::Effect& effect) {
    const ir::DType& type = effect.buffer->dtype;
    bool fits = effect.buffer.IsGlobal() ? type.bits == kResultBits : type.bits >= kResultBits;
    qualifies &= effect.kind != ir::EffectKind::kAddress;
    qualifies &= !effect.Writes() || ir::IsIntegral(type) || (ir::IsFloat(type) && fits);
  });
  ir::WalkStmts(launch->body, [&](const Stmt& s) { return qualifies &= KeepsErrorsSmall(s); });
  ir::WalkExprs(launch->body, [&](const Expr& e) { return qualifies &= KeepsErrorsSmall(e); });
  return qualifies && !HasErrorAtLimit(launch->body, IsApproximated);
}

class Approximator : public ir::StmtMutator {
 public:
  using StmtMutator::Mutate;
  using StmtMutator::Rewrite;

  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    if (!Qualifies(op)) return ir::ffi::GetRef<Stmt>(op);
    replaced_.clear();
    Stmt result = StmtMutator::Rewrite(op);
    if (!replaced_.empty()) RemarkFunctions(op);
    return result;
  }

  Stmt Rewrite(const ir::BindNode* op) override {
    names_[op->var.get()] = op->value;
    return StmtMutator::Rewrite(op);
  }

  Expr Mutate(const Expr& e) override {
    NoteSum(e);
    Expr self = StmtMutator::Mutate(e);
    if (!IsApproximated(self)) return self;
    if (const auto* op = self.as<ir::BinaryNode>()) {
      replaced_.insert("quotients");
      return Quotient(op->a, op->b, op->span);
    }
    const auto* call = self.as<ir::CallNode>();
    if (call->name == "sigmoid") {
      replaced_.insert("exponentials");
      const Expr& x = call->args[0];
      Expr one = ir::FloatImm(x.dtype(), 1.0, call->span);
      ir::Call exponential(call->dtype, "exp", {ir::MakeUnary(ir::UnaryOp::kNeg, x, call->span)},
                           {}, call->span);
      return Quotient(one, one + PowerOfTwo(exponential.get(), "__exp2"), call->span);
    }
    replaced_.insert("exponentials");
    bool small = in_sums_.count(e.get()) != 0 || IsDifference(call->args[0]);
    return PowerOfTwo(call, small ? "__exp2" : "exp2");
  }

 private:
  static Expr Quotient(const Expr& a, const Expr& b, const ir::Span& span) {
    return ir::Call(a.dtype(), "quotient", {a, b}, {}, span);
  }
  static Expr PowerOfTwo(const ir::CallNode* exponential, const char* function) {
    return ir::Call(exponential->dtype, function, {PowerOf(exponential)}, {}, exponential->span);
  }
  // Returns whether a number of memory is subtracted, such as the largest one of a row, also under
  // a name or times a constant.
  bool IsDifference(const Expr& e) const {
    if (auto name = names_.find(e.get()); name != names_.end()) return IsDifference(name->second);
    const auto* op = e.as<ir::BinaryNode>();
    if (op == nullptr) return false;
    if (op->Op() == ir::BinaryOp::kMul) return IsDifference(op->a) || IsDifference(op->b);
    return op->Op() == ir::BinaryOp::kSub && ir::HasExpr(op->b, [&](const Expr& part) {
             auto name = names_.find(part.get());
             return part->kind == ir::ExprKind::kLoad ||
                    (name != names_.end() && ir::HasLoad(name->second));
           });
  }
  // Notes the exponential in the sum of one and a constant, beside which it may be zero.
  void NoteSum(const Expr& e) {
    const auto* op = e.as<ir::BinaryNode>();
    if (op == nullptr || op->Op() != ir::BinaryOp::kAdd) return;
    if (op->a->kind == ir::ExprKind::kFloatImm) in_sums_.insert(op->b.get());
    if (op->b->kind == ir::ExprKind::kFloatImm) in_sums_.insert(op->a.get());
  }

  void RemarkFunctions(const ir::KernelLaunchNode* op) const {
    std::string names;
    for (const std::string& name : replaced_) names += (names.empty() ? "" : " and ") + name;
    Remark(op->span, "approximation",
           "T.Kernel: approximate instructions compute " + names +
               ", with a relative error of about 2^-22, because all results are rounded to 16 "
               "bits. The pass option tl.disable_approximate_functions turns this off");
  }

  std::set<std::string> replaced_;
  std::unordered_set<const ir::ffi::Object*> in_sums_;
  std::unordered_map<const ir::ffi::Object*, Expr> names_;
};

}  // namespace

ir::Func ApproximateFunctions(const ir::Func& func) {
  return func.WithBody(Approximator().MutateStmt(func->body));
}

}  // namespace tilelang::lower
