// Constant folding and the arithmetic operators on Expr.
#include "ir/fold.h"

namespace tilelang::ir {

int64_t FloorDivInt(int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }
int64_t FloorModInt(int64_t a, int64_t b) { return a - FloorDivInt(a, b) * b; }

int64_t Wrap(DType t, int64_t value) {
  if (IsBool(t)) return value != 0;
  if (t.bits >= 64) return value;
  int64_t mask = (int64_t{1} << t.bits) - 1;
  value &= mask;
  if (IsInt(t) && (value >> (t.bits - 1)) != 0) value -= mask + 1;
  return value;
}

namespace {

uint64_t Unsigned(int64_t value) { return static_cast<uint64_t>(value); }

template <typename T>
bool Compare(BinaryOp op, T a, T b) {
  switch (op) {
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
    default:
      return a >= b;
  }
}

// Division and modulo of 64-bit patterns; the divisor is not zero.
int64_t DivideInt(BinaryOp op, bool is_unsigned, int64_t a, int64_t b) {
  if (is_unsigned) {
    uint64_t q = Unsigned(a) / Unsigned(b);
    return static_cast<int64_t>(op == BinaryOp::kFloorDiv ? q : Unsigned(a) % Unsigned(b));
  }
  if (b == -1) return op == BinaryOp::kFloorDiv ? static_cast<int64_t>(-Unsigned(a)) : 0;
  return op == BinaryOp::kFloorDiv ? FloorDivInt(a, b) : FloorModInt(a, b);
}

}  // namespace

std::optional<int64_t> FoldInt(BinaryOp op, DType t, int64_t a, int64_t b) {
  bool is_unsigned = IsUInt(t);
  bool less = is_unsigned ? Unsigned(a) < Unsigned(b) : a < b;
  switch (op) {
    case BinaryOp::kAdd:
      return static_cast<int64_t>(Unsigned(a) + Unsigned(b));
    case BinaryOp::kSub:
      return static_cast<int64_t>(Unsigned(a) - Unsigned(b));
    case BinaryOp::kMul:
      return static_cast<int64_t>(Unsigned(a) * Unsigned(b));
    case BinaryOp::kFloorDiv:
    case BinaryOp::kFloorMod:
      if (b == 0) return std::nullopt;
      return DivideInt(op, is_unsigned, a, b);
    case BinaryOp::kMin:
      return less ? a : b;
    case BinaryOp::kMax:
      return less ? b : a;
    case BinaryOp::kAnd:
    case BinaryOp::kBitAnd:
      return a & b;
    case BinaryOp::kOr:
    case BinaryOp::kBitOr:
      return a | b;
    case BinaryOp::kBitXor:
      return a ^ b;
    case BinaryOp::kShl:
      if (b < 0 || b >= t.bits) return std::nullopt;
      return static_cast<int64_t>(Unsigned(a) << b);
    case BinaryOp::kShr:
      if (b < 0 || b >= t.bits) return std::nullopt;
      return is_unsigned ? static_cast<int64_t>(Unsigned(a) >> b) : a >> b;
    default:
      return is_unsigned ? Compare(op, Unsigned(a), Unsigned(b)) : Compare(op, a, b);
  }
}

namespace {

const FloatImmNode* AsFloatImm(const Expr& e) { return e.as<FloatImmNode>(); }

// x + 0, x * 1, x * 0, x // 1, true and x, ...: null when no identity applies. Integers and
// bools only: 0 * x is not 0 for every float.
Expr FoldIdentity(BinaryOp op, const Expr& a, const Expr& b) {
  if (!IsIntegral(a.dtype())) return Expr();
  auto is = [](const Expr& e, int64_t v) { return IsConst(e, v); };
  switch (op) {
    case BinaryOp::kAdd:
      if (is(a, 0)) return b;
      return is(b, 0) ? a : Expr();
    case BinaryOp::kSub:
      if (a.same_as(b)) return Const(a.dtype(), 0);
      return is(b, 0) ? a : Expr();
    case BinaryOp::kMul:
      if (is(a, 1)) return b;
      if (is(b, 1)) return a;
      if (is(a, 0)) return a;
      return is(b, 0) ? b : Expr();
    case BinaryOp::kFloorDiv:
      return is(b, 1) || is(a, 0) ? a : Expr();
    case BinaryOp::kFloorMod:
      if (is(b, 1)) return Const(a.dtype(), 0);
      return is(a, 0) ? a : Expr();
    case BinaryOp::kMin:
    case BinaryOp::kMax:
      return a.same_as(b) ? a : Expr();
    case BinaryOp::kAnd:
      if (is(a, 1) || is(b, 0)) return b;
      return is(b, 1) || is(a, 0) ? a : Expr();
    case BinaryOp::kOr:
      if (is(a, 0) || is(b, 1)) return b;
      return is(b, 0) || is(a, 1) ? a : Expr();
    case BinaryOp::kBitXor:
    case BinaryOp::kBitOr:
    case BinaryOp::kShl:
    case BinaryOp::kShr:
      return is(b, 0) ? a : Expr();
    default:
      return Expr();
  }
}

}  // namespace

Expr Const(DType dtype, int64_t value) {
  if (IsFloat(dtype)) return FloatImm(dtype, static_cast<double>(value));
  return IntImm(dtype, Wrap(dtype, value));
}

Expr Const(DType dtype, double value) {
  if (IsFloat(dtype)) return FloatImm(dtype, value);
  return IntImm(dtype, Wrap(dtype, static_cast<int64_t>(value)));
}

Expr CastTo(DType dtype, const Expr& value, Span span) {
  if (value.dtype() == dtype) return value;
  if (auto i = AsInt(value)) {
    bool big_unsigned = IsUInt(value.dtype()) && *i < 0;
    if (!IsFloat(dtype)) return IntImm(dtype, Wrap(dtype, *i), std::move(span));
    if (!big_unsigned) return FloatImm(dtype, static_cast<double>(*i), std::move(span));
  }
  // Narrow floats round when the constant is printed, so only wide ones fold here.
  const FloatImmNode* f = AsFloatImm(value);
  if (f != nullptr && IsFloat(dtype) && dtype.bits >= f->dtype.bits) {
    return FloatImm(dtype, f->value, std::move(span));
  }
  return Cast(dtype, value, std::move(span));
}

Expr MakeBinary(BinaryOp op, Expr a, Expr b, Span span) {
  if (a.dtype() != b.dtype()) {
    if (AsInt(a)) {
      a = CastTo(b.dtype(), a);
    } else if (AsInt(b)) {
      b = CastTo(a.dtype(), b);
    }
  }
  auto x = AsInt(a);
  auto y = AsInt(b);
  DType result = IsComparison(op) ? dtypes::kBool : a.dtype();
  if (x && y && a.dtype() == b.dtype()) {
    if (auto value = FoldInt(op, a.dtype(), *x, *y)) {
      return IntImm(result, Wrap(result, *value), std::move(span));
    }
  }
  const FloatImmNode* fa = AsFloatImm(a);
  const FloatImmNode* fb = AsFloatImm(b);
  if (fa && fb && IsComparison(op))
    return Const(dtypes::kBool, int64_t{Compare(op, fa->value, fb->value)});
  Expr same = FoldIdentity(op, a, b);
  if (same.defined()) return same;
  return Binary(op, std::move(a), std::move(b), std::move(span));
}

Expr operator+(const Expr& a, const Expr& b) { return MakeBinary(BinaryOp::kAdd, a, b); }
Expr operator-(const Expr& a, const Expr& b) { return MakeBinary(BinaryOp::kSub, a, b); }
Expr operator*(const Expr& a, const Expr& b) { return MakeBinary(BinaryOp::kMul, a, b); }
Expr operator<(const Expr& a, const Expr& b) { return MakeBinary(BinaryOp::kLt, a, b); }
Expr operator<=(const Expr& a, const Expr& b) { return MakeBinary(BinaryOp::kLe, a, b); }
Expr operator>=(const Expr& a, const Expr& b) { return MakeBinary(BinaryOp::kGe, a, b); }
Expr operator&&(const Expr& a, const Expr& b) { return MakeBinary(BinaryOp::kAnd, a, b); }
Expr operator||(const Expr& a, const Expr& b) { return MakeBinary(BinaryOp::kOr, a, b); }
Expr operator^(const Expr& a, const Expr& b) { return MakeBinary(BinaryOp::kBitXor, a, b); }
Expr operator&(const Expr& a, const Expr& b) { return MakeBinary(BinaryOp::kBitAnd, a, b); }
Expr FloorDiv(const Expr& a, const Expr& b) { return MakeBinary(BinaryOp::kFloorDiv, a, b); }
Expr FloorMod(const Expr& a, const Expr& b) { return MakeBinary(BinaryOp::kFloorMod, a, b); }
Expr CeilDiv(const Expr& a, const Expr& b) { return FloorDiv(a + (b - 1), b); }
Expr MakeEq(const Expr& a, const Expr& b) { return MakeBinary(BinaryOp::kEq, a, b); }
Expr Min(const Expr& a, const Expr& b) { return MakeBinary(BinaryOp::kMin, a, b); }
Expr Max(const Expr& a, const Expr& b) { return MakeBinary(BinaryOp::kMax, a, b); }

Expr Not(const Expr& a) {
  if (auto value = AsInt(a)) return Const(dtypes::kBool, int64_t{*value == 0});
  return Unary(UnaryOp::kNot, a);
}

}  // namespace tilelang::ir
