// f16 and bf16 arithmetic, packed forms, mixed precision with f32; and f64.
#include <cfenv>

#include "emulator/core/families.h"
#include "emulator/instructions/elementwise.h"
#include "emulator/instructions/float_ops.h"

namespace tilelang::emulator {
namespace {

template <bool kBfloat>
inline float Decode(uint16_t a) {
  return kBfloat ? Bf16ToF32(a) : F16ToF32(a);
}

template <bool kBfloat>
inline uint16_t Encode(double value) {
  return static_cast<uint16_t>(
      EncodeFloat(kBfloat ? kBf16 : kF16, value, Rounding::kNearestEven, false));
}

// Sources are exact in double, sums and products are rounded to odd there, then once to the type.
template <Arithmetic kOp>
inline double Exact(float a, float b) {
  if constexpr (kOp == Arithmetic::kAdd) return AddToOdd(a, b);
  if constexpr (kOp == Arithmetic::kSub) return AddToOdd(a, -static_cast<double>(b));
  return static_cast<double>(a) * b;
}

enum class Finish : uint8_t { kPlain, kSat, kRelu };

template <Finish kFinish>
inline double Finished(double value) {
  if constexpr (kFinish == Finish::kSat) return value > 0 ? (value > 1 ? 1.0 : value) : 0.0;
  // .relu clamps negative results to +0; NaN stays NaN
  if constexpr (kFinish == Finish::kRelu) return value <= 0 ? 0.0 : value;
  return value;
}

template <Arithmetic kOp, bool kBfloat, Finish kFinish>
struct HalfBinary {
  uint16_t operator()(uint16_t a, uint16_t b) const {
    return Encode<kBfloat>(Finished<kFinish>(Exact<kOp>(Decode<kBfloat>(a), Decode<kBfloat>(b))));
  }
};

template <bool kBfloat, Finish kFinish>
struct HalfFma {
  uint16_t operator()(uint16_t a, uint16_t b, uint16_t c) const {
    double value = FmaToOdd(Decode<kBfloat>(a), Decode<kBfloat>(b), Decode<kBfloat>(c));
    return Encode<kBfloat>(Finished<kFinish>(value));
  }
};

template <bool kMax, bool kBfloat, bool kNan, bool kXorsign>
struct HalfMinMax {
  uint16_t operator()(uint16_t a, uint16_t b) const {
    uint16_t sign = kXorsign ? (a ^ b) & 0x8000 : 0;
    if (kXorsign) a &= 0x7FFF, b &= 0x7FFF;
    float value = MinMax<kMax, kNan>(Decode<kBfloat>(a), Decode<kBfloat>(b));
    if (value != value) return 0x7FFF;
    return static_cast<uint16_t>(Encode<kBfloat>(value) | sign);
  }
};

template <typename F>
struct OnHalves {
  uint32_t operator()(uint32_t a, uint32_t b) const {
    return F()(static_cast<uint16_t>(a), static_cast<uint16_t>(b)) |
           uint32_t{F()(static_cast<uint16_t>(a >> 16), static_cast<uint16_t>(b >> 16))} << 16;
  }
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    return F()(static_cast<uint16_t>(a), static_cast<uint16_t>(b), static_cast<uint16_t>(c)) |
           uint32_t{F()(static_cast<uint16_t>(a >> 16), static_cast<uint16_t>(b >> 16),
                        static_cast<uint16_t>(c >> 16))}
               << 16;
  }
};

template <typename F>
Handler BinaryOf(bool packed) {
  return packed ? Binary<OnHalves<F>, uint32_t>() : Binary<F, uint16_t>();
}
template <typename F>
Handler TernaryOf(bool packed) {
  return packed ? Ternary<OnHalves<F>, uint32_t>() : Ternary<F, uint16_t>();
}

template <Arithmetic kOp, bool kBfloat>
Handler OfOperation(const FloatModifiers& m, bool packed) {
  if constexpr (kOp == Arithmetic::kFma) {
    if (m.saturate) return TernaryOf<HalfFma<kBfloat, Finish::kSat>>(packed);
    if (m.relu) return TernaryOf<HalfFma<kBfloat, Finish::kRelu>>(packed);
    return TernaryOf<HalfFma<kBfloat, Finish::kPlain>>(packed);
  } else {
    if (m.saturate) return BinaryOf<HalfBinary<kOp, kBfloat, Finish::kSat>>(packed);
    return BinaryOf<HalfBinary<kOp, kBfloat, Finish::kPlain>>(packed);
  }
}

template <bool kMax, bool kBfloat>
Handler MinMaxOf(const FloatModifiers& m, bool packed) {
  if (m.xorsign) {
    return m.nan ? BinaryOf<HalfMinMax<kMax, kBfloat, true, true>>(packed)
                 : BinaryOf<HalfMinMax<kMax, kBfloat, false, true>>(packed);
  }
  return m.nan ? BinaryOf<HalfMinMax<kMax, kBfloat, true, false>>(packed)
               : BinaryOf<HalfMinMax<kMax, kBfloat, false, false>>(packed);
}

template <bool kBfloat>
Handler OfType(Arithmetic operation, const FloatModifiers& m, bool packed) {
  switch (operation) {
    case Arithmetic::kAdd:
      return OfOperation<Arithmetic::kAdd, kBfloat>(m, packed);
    case Arithmetic::kSub:
      return OfOperation<Arithmetic::kSub, kBfloat>(m, packed);
    case Arithmetic::kMul:
      return OfOperation<Arithmetic::kMul, kBfloat>(m, packed);
    case Arithmetic::kFma:
      return OfOperation<Arithmetic::kFma, kBfloat>(m, packed);
    case Arithmetic::kMin:
      return MinMaxOf<false, kBfloat>(m, packed);
    case Arithmetic::kMax:
      return MinMaxOf<true, kBfloat>(m, packed);
    default:
      return nullptr;
  }
}

// --- mixed precision ----------------------------------------------------------------------------

template <bool kBfloat, bool kSubtract>
struct MixedAdd {
  float operator()(uint16_t a, float c) const {
    float value = Decode<kBfloat>(a);
    return CanonicalNan(kSubtract ? value - c : value + c);
  }
};
template <bool kBfloat>
struct MixedFma {
  float operator()(uint16_t a, uint16_t b, float c) const {
    return CanonicalNan(__builtin_fmaf(Decode<kBfloat>(a), Decode<kBfloat>(b), c));
  }
};

template <bool kBfloat>
Handler MixedOf(Arithmetic operation) {
  switch (operation) {
    case Arithmetic::kAdd:
      return Binary<MixedAdd<kBfloat, false>, float, uint16_t, float>();
    case Arithmetic::kSub:
      return Binary<MixedAdd<kBfloat, true>, float, uint16_t, float>();
    case Arithmetic::kFma:
      return Ternary<MixedFma<kBfloat>, float, uint16_t, uint16_t, float>();
    default:
      return nullptr;
  }
}

// --- f64 ----------------------------------------------------------------------------------------

template <Arithmetic kOp>
struct F64Binary {
  double operator()(double a, double b) const {
    if constexpr (kOp == Arithmetic::kAdd) return a + b;
    if constexpr (kOp == Arithmetic::kSub) return a - b;
    if constexpr (kOp == Arithmetic::kMul) return a * b;
    if constexpr (kOp == Arithmetic::kDiv) return a / b;
    if constexpr (kOp == Arithmetic::kMin) return MinMax<false, false>(a, b);
    if constexpr (kOp == Arithmetic::kMax) return MinMax<true, false>(a, b);
  }
};
struct F64Fma {
  [[gnu::always_inline]] double operator()(double a, double b, double c) const {
    return __builtin_fma(a, b, c);
  }
};

// Directed rounding: the host's own rounding mode; flags holds the fenv constant.
template <Arithmetic kOp>
Flow F64Directed(Warp& w, const Op& op, uint32_t mask) {
  double* d = w.Reg<double>(op.a[0]);
  const double* a = w.Reg<double>(op.a[1]);
  const double* b = w.Reg<double>(op.a[2]);
  const double* c = kOp == Arithmetic::kFma ? w.Reg<double>(op.a[3]) : b;
  std::fesetround(op.flags);
  ForEachLane(mask, [&](int i) {
    volatile double x = a[i], y = b[i], z = c[i], result;
    if constexpr (kOp == Arithmetic::kFma) {
      result = std::fma(x, y, z);
    } else {
      result = F64Binary<kOp>()(x, y);
    }
    d[i] = result;
  });
  std::fesetround(FE_TONEAREST);
  return Flow::kNext;
}

}  // namespace

Handler HalfHandler(Arithmetic operation, const FloatModifiers& m) {
  if (m.rounding != Rounding::kNearestEven || (m.relu && operation != Arithmetic::kFma)) {
    return nullptr;
  }
  if (m.flush) return nullptr;
  switch (m.type) {
    case Type::kF16:
      return OfType<false>(operation, m, false);
    case Type::kF16x2:
      return OfType<false>(operation, m, true);
    case Type::kBF16:
      return OfType<true>(operation, m, false);
    case Type::kBF16x2:
      return OfType<true>(operation, m, true);
    default:
      return nullptr;
  }
}

Handler MixedHandler(Arithmetic operation, const FloatModifiers& m) {
  if (m.type != Type::kF32 || m.rounding != Rounding::kNearestEven || m.flush || m.saturate) {
    return nullptr;
  }
  if (m.source == Type::kF16) return MixedOf<false>(operation);
  if (m.source == Type::kBF16) return MixedOf<true>(operation);
  return nullptr;
}

Handler F64Handler(Arithmetic operation, const FloatModifiers& m) {
  if (m.flush || m.saturate || m.relu || m.nan || m.xorsign) return nullptr;
  bool directed = m.rounding != Rounding::kNearestEven;
  switch (operation) {
    case Arithmetic::kAdd:
      return directed ? F64Directed<Arithmetic::kAdd>
                      : Binary<F64Binary<Arithmetic::kAdd>, double>();
    case Arithmetic::kSub:
      return directed ? F64Directed<Arithmetic::kSub>
                      : Binary<F64Binary<Arithmetic::kSub>, double>();
    case Arithmetic::kMul:
      return directed ? F64Directed<Arithmetic::kMul>
                      : Binary<F64Binary<Arithmetic::kMul>, double>();
    case Arithmetic::kDiv:
      return directed ? F64Directed<Arithmetic::kDiv>
                      : Binary<F64Binary<Arithmetic::kDiv>, double>();
    case Arithmetic::kFma:
      return directed ? F64Directed<Arithmetic::kFma> : Ternary<F64Fma, double>();
    case Arithmetic::kMin:
      return Binary<F64Binary<Arithmetic::kMin>, double>();
    default:
      return Binary<F64Binary<Arithmetic::kMax>, double>();
  }
}

}  // namespace tilelang::emulator
