#include "ir/build.h"

#include "ir/error.h"
#include "ir/printer.h"
#include "registry/functions.h"

namespace tilelang::ir {

namespace {

bool IsNarrowFloat(DType t) { return IsFloat(t) && t.bits < 32; }

void RequireIntegral(const char* what, const Expr& a, const Expr& b, const Span& span) {
  if (IsIntegral(a.dtype()) && IsIntegral(b.dtype())) return;
  TL_USER_ERROR(kDType, span,
                "operator " << what << " takes integers, got " << ToString(a.dtype()) << " and "
                            << ToString(b.dtype()) << "; convert with T.cast first");
}

bool IsBitOp(BinaryOp op) { return op >= BinaryOp::kBitAnd; }

void RequireNumber(const Expr& e, const Span& span) {
  if (e.dtype() == dtypes::kHandle || e.dtype() == dtypes::kVoid) {
    TL_USER_ERROR(kDType, span,
                  "a value of type " << ToString(e.dtype()) << " cannot take part in arithmetic");
  }
}

}  // namespace

DType Promote(DType a, DType b) {
  if (a == b) return a;
  if (IsFloat(a) && IsFloat(b)) {
    if (a.bits != b.bits) return a.bits > b.bits ? a : b;
    return IsNarrowFloat(a) ? dtypes::kFloat32 : a;
  }
  if (IsFloat(a)) return a;
  if (IsFloat(b)) return b;
  if (IsBool(a)) return b;
  if (IsBool(b)) return a;
  if (a.bits != b.bits) return a.bits > b.bits ? a : b;
  return IsUInt(a) ? a : b;
}

Expr AsCondition(const Expr& value) {
  if (IsBool(value.dtype())) return value;
  return MakeBinary(BinaryOp::kNe, value, Const(value.dtype(), 0), value.span());
}

// Returns whether an integer of 8 or 16 bits is shifted by a constant as large or larger. C
// converts such integers to int before any operation, and so do programs that write this.
bool ShiftsBeyond(BinaryOp op, const Expr& b, DType t) {
  bool shift = op == BinaryOp::kShl || op == BinaryOp::kShr;
  auto count = shift && IsIntegral(t) && t.bits < 32 ? AsInt(b) : std::nullopt;
  return count && *count >= t.bits;
}

// Refuses shifts that C++ leaves undefined, and that compilers fold to anything.
void CheckShift(BinaryOp op, const Expr& a, const Expr& b, DType t, const Span& span) {
  auto count = op == BinaryOp::kShl || op == BinaryOp::kShr ? AsInt(b) : std::nullopt;
  if (!count || (0 <= *count && *count < t.bits)) return;
  TL_USER_ERROR(kSemantics, span,
                Print(a) << " " << Spelling(op) << " " << *count << ": " << ToString(t)
                         << " is shifted by 0 to " << t.bits - 1
                         << "; convert what is shifted to a wider type before");
}

Expr Arithmetic(BinaryOp op, Expr a, Expr b, const Span& span) {
  RequireNumber(a, span);
  RequireNumber(b, span);
  if (op == BinaryOp::kAnd || op == BinaryOp::kOr) {
    return MakeBinary(op, AsCondition(a), AsCondition(b), span);
  }
  if (IsBitOp(op)) RequireIntegral(Spelling(op), a, b, span);
  DType t = Promote(a.dtype(), b.dtype());
  if (op == BinaryOp::kDiv && IsIntegral(t)) t = dtypes::kFloat32;
  // Arithmetic on bools is arithmetic on int32, as in C.
  if (IsBool(t) && !IsComparison(op) && op != BinaryOp::kBitAnd && op != BinaryOp::kBitOr &&
      op != BinaryOp::kBitXor) {
    t = dtypes::kInt32;
  }
  if ((op == BinaryOp::kFloorDiv || op == BinaryOp::kFloorMod) && IsConst(b, 0)) {
    TL_USER_ERROR(kSemantics, span,
                  "division by the constant zero in " << Print(a) << " " << Spelling(op) << " 0");
  }
  if (ShiftsBeyond(op, b, t)) t = dtypes::kInt32;
  CheckShift(op, a, b, t, span);
  if (IsFloat(t) && op == BinaryOp::kFloorDiv) {
    Expr quotient = MakeBinary(BinaryOp::kDiv, CastTo(t, a), CastTo(t, b), span);
    return Call(t, "floor", {quotient}, {}, span);
  }
  if (IsFloat(t) && op == BinaryOp::kFloorMod) {
    Expr x = CastTo(t, a);
    Expr y = CastTo(t, b);
    Expr q = Call(t, "floor", {MakeBinary(BinaryOp::kDiv, x, y, span)}, {}, span);
    return MakeBinary(BinaryOp::kSub, x, MakeBinary(BinaryOp::kMul, q, y, span), span);
  }
  return MakeBinary(op, CastTo(t, a, span), CastTo(t, b, span), span);
}

Expr MakeUnary(UnaryOp op, Expr a, const Span& span) {
  RequireNumber(a, span);
  if (op == UnaryOp::kNot) return Not(AsCondition(a));
  if (op == UnaryOp::kBitNot) RequireIntegral("~", a, a, span);
  if (IsBool(a.dtype())) a = CastTo(dtypes::kInt32, a);
  if (auto value = AsInt(a)) {
    return Const(a.dtype(), op == UnaryOp::kNeg ? -*value : ~*value);
  }
  if (const auto* f = a.as<FloatImmNode>()) return FloatImm(f->dtype, -f->value, span);
  return Unary(op, a, span);
}

Expr MakeSelect(Expr condition, Expr true_value, Expr false_value, const Span& span) {
  DType t = Promote(true_value.dtype(), false_value.dtype());
  Expr c = AsCondition(condition);
  Expr x = CastTo(t, true_value);
  Expr y = CastTo(t, false_value);
  if (auto value = AsInt(c)) return *value != 0 ? x : y;
  return Select(c, x, y, span);
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = ffi::reflection;
  registry::Functions()
      .Add("tl.ir.Arithmetic",
           [](int64_t op, Expr a, Expr b, Span span) {
             return Arithmetic(static_cast<BinaryOp>(op), a, b, span);
           })
      .Add("tl.ir.Unary", [](int64_t op, Expr a,
                             Span span) { return MakeUnary(static_cast<UnaryOp>(op), a, span); })
      .Add("tl.ir.Select",
           [](Expr c, Expr a, Expr b, Span span) { return MakeSelect(c, a, b, span); })
      .Add("tl.ir.Cast", [](DType t, Expr value, Span span) { return CastTo(t, value, span); })
      .Add("tl.ir.Condition", [](Expr value) { return AsCondition(value); })
      .Add("tl.ir.CudaName", [](DType t) { return String(CudaName(t)); })
      .Add("tl.ir.Promote", [](DType a, DType b) { return Promote(a, b); });
}

}  // namespace tilelang::ir
