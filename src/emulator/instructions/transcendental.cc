// rcp, sqrt, rsqrt, sin, cos, lg2, ex2, tanh, testp. The .approx forms give the correctly rounded
// value, which lies within every error bound that the PTX ISA allows.
#include <cmath>

#include "emulator/core/families.h"
#include "emulator/instructions/elementwise.h"
#include "emulator/instructions/float_ops.h"

namespace tilelang::emulator {
namespace {

// clang-format off
struct Rcp { double operator()(double a) const { return DivideToOdd(1.0, a); } };
struct Sqrt { double operator()(double a) const { return SquareRootToOdd(a); } };
struct Rsqrt { double operator()(double a) const { return 1.0 / std::sqrt(a); } };
struct Sin { double operator()(double a) const { return std::sin(a); } };
struct Cos { double operator()(double a) const { return std::cos(a); } };
struct Lg2 { double operator()(double a) const { return std::log2(a); } };
struct Ex2 { double operator()(double a) const { return std::exp2(a); } };
struct Tanh { double operator()(double a) const { return std::tanh(a); } };
// clang-format on

template <typename F, Rounding kRound, bool kFtz>
struct OnF32 {
  float operator()(float a) const {
    if (kFtz) a = FlushSubnormal(a);
    double exact = F()(a);
    float value = kRound == Rounding::kNearestEven ? CanonicalNan(static_cast<float>(exact))
                                                   : RoundToF32(exact, kRound);
    return kFtz ? FlushSubnormal(value) : value;
  }
};

template <typename F, bool kBfloat>
struct OnHalf {
  uint16_t operator()(uint16_t a) const {
    double value = F()(kBfloat ? Bf16ToF32(a) : F16ToF32(a));
    return static_cast<uint16_t>(
        EncodeFloat(kBfloat ? kBf16 : kF16, value, Rounding::kNearestEven, false));
  }
};
template <typename F, bool kBfloat>
struct OnHalves {
  uint32_t operator()(uint32_t a) const {
    OnHalf<F, kBfloat> f;
    return f(static_cast<uint16_t>(a)) | uint32_t{f(static_cast<uint16_t>(a >> 16))} << 16;
  }
};

// clang-format off
struct Rcp64 { double operator()(double a) const { return 1.0 / a; } };
struct Sqrt64 { double operator()(double a) const { return std::sqrt(a); } };
// clang-format on

// Computes in the host's own rounding mode; flags holds the fenv constant.
template <typename F>
Flow F64Directed(Warp& w, const Op& op, uint32_t mask) {
  double* d = w.Reg<double>(op.a[0]);
  const double* a = w.Reg<double>(op.a[1]);
  std::fesetround(op.flags);
  ForEachLane(mask, [&](int i) {
    volatile double x = a[i], result;
    result = F()(x);
    d[i] = result;
  });
  std::fesetround(FE_TONEAREST);
  return Flow::kNext;
}

template <typename F>
Handler F64Of(const FloatModifiers& m) {
  if (m.flush && !m.approximate) return nullptr;
  return m.rounding == Rounding::kNearestEven ? Unary<F, double>() : F64Directed<F>;
}

template <typename F>
Handler F32Of(const FloatModifiers& m) {
  switch (m.rounding) {
    case Rounding::kTowardZero:
      return m.flush ? Unary<OnF32<F, Rounding::kTowardZero, true>, float>()
                     : Unary<OnF32<F, Rounding::kTowardZero, false>, float>();
    case Rounding::kDown:
      return m.flush ? Unary<OnF32<F, Rounding::kDown, true>, float>()
                     : Unary<OnF32<F, Rounding::kDown, false>, float>();
    case Rounding::kUp:
      return m.flush ? Unary<OnF32<F, Rounding::kUp, true>, float>()
                     : Unary<OnF32<F, Rounding::kUp, false>, float>();
    default:
      return m.flush ? Unary<OnF32<F, Rounding::kNearestEven, true>, float>()
                     : Unary<OnF32<F, Rounding::kNearestEven, false>, float>();
  }
}

template <typename F>
Handler HalfOf(Type type) {
  switch (type) {
    case Type::kF16:
      return Unary<OnHalf<F, false>, uint16_t>();
    case Type::kBF16:
      return Unary<OnHalf<F, true>, uint16_t>();
    case Type::kF16x2:
      return Unary<OnHalves<F, false>, uint32_t>();
    case Type::kBF16x2:
      return Unary<OnHalves<F, true>, uint32_t>();
    default:
      return nullptr;
  }
}

template <typename F, bool kHalves>
void DecodeUnary(Decoder& d) {
  FloatModifiers m = TakeFloatModifiers(d);
  if (m.type == Type::kF32) {
    d.op.handler = F32Of<F>(m);
  } else if (kHalves) {
    d.op.handler = HalfOf<F>(m.type);
  }
  if (m.type == Type::kF64) {
    d.op.flags = HostRounding(m.rounding);
    if constexpr (std::is_same_v<F, Rcp>) d.op.handler = F64Of<Rcp64>(m);
    if constexpr (std::is_same_v<F, Sqrt>) d.op.handler = F64Of<Sqrt64>(m);
    if constexpr (std::is_same_v<F, Rsqrt>) d.op.handler = Unary<Rsqrt, double>();
  }
  if (!d.op.handler) d.Unsupported();
  PushUniform(d, m.type, 1);
}

// --- testp
// ----------------------------------------------------------------------------------------

enum class Test : uint16_t { kFinite, kInfinite, kNumber, kNotANumber, kNormal, kSubnormal };

template <typename T>
bool Classify(Test test, T value) {
  switch (test) {
    case Test::kFinite:
      return std::isfinite(value);
    case Test::kInfinite:
      return std::isinf(value);
    case Test::kNumber:
      return !std::isnan(value);
    case Test::kNotANumber:
      return std::isnan(value);
    case Test::kNormal:
      return std::isnormal(value);
    default:
      return std::fpclassify(value) == FP_SUBNORMAL;
  }
}

template <typename T>
Flow TestValue(Warp& w, const Op& op, uint32_t mask) {
  const T* a = w.Reg<T>(op.a[1]);
  uint32_t result = 0;
  ForEachLane(mask,
              [&](int i) { result |= Classify(static_cast<Test>(op.flags), a[i]) ? 1u << i : 0; });
  w.SetPredicate(op.a[0], mask, result);
  return Flow::kNext;
}

void DecodeTest(Decoder& d) {
  static constexpr const char* kNames[] = {"finite",     "infinite", "number",
                                           "notanumber", "normal",   "subnormal"};
  for (uint16_t i = 0; i < 6; ++i) {
    if (d.mods.Take(kNames[i])) d.op.flags = i;
  }
  Type type = d.mods.TakeType();
  d.Push(d.PredicateDestination(d.operand(0)));
  d.PushSource(1, type);
  d.op.handler = type == Type::kF64 ? TestValue<double> : TestValue<float>;
}

}  // namespace

void RegisterTranscendental() {
  FamilyRegistry::Add("rcp", DecodeUnary<Rcp, false>);
  FamilyRegistry::Add("sqrt", DecodeUnary<Sqrt, false>);
  FamilyRegistry::Add("rsqrt", DecodeUnary<Rsqrt, false>);
  FamilyRegistry::Add("sin", DecodeUnary<Sin, false>);
  FamilyRegistry::Add("cos", DecodeUnary<Cos, false>);
  FamilyRegistry::Add("lg2", DecodeUnary<Lg2, false>);
  FamilyRegistry::Add("ex2", DecodeUnary<Ex2, true>);
  FamilyRegistry::Add("tanh", DecodeUnary<Tanh, true>);
  FamilyRegistry::Add("testp", DecodeTest);
}

}  // namespace tilelang::emulator
