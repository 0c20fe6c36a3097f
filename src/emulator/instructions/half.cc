// f16 and bf16 arithmetic, packed forms, mixed precision with f32; and f64.
#include <cfenv>

#include "emulator/core/families.h"
#include "emulator/instructions/elementwise.h"
#include "emulator/instructions/float_ops.h"

namespace tilelang::emulator {
namespace {

enum class Element : uint8_t { kF16, kF16Flushed, kBf16 };

// f16 with .ftz: subnormals become zero of the same sign.
inline uint16_t FlushHalf(uint16_t a) { return (a & 0x7C00) ? a : a & 0x8000; }

template <Element kElement>
inline float Decode(uint16_t a) {
  if constexpr (kElement == Element::kBf16) return Bf16ToF32(a);
  return F16ToF32(kElement == Element::kF16Flushed ? FlushHalf(a) : a);
}

template <Element kElement>
inline uint16_t Encode(float value) {
  const uint16_t code = kElement == Element::kBf16 ? F32ToBf16(value) : F32ToF16(value);
  return kElement == Element::kF16Flushed ? FlushHalf(code) : code;
}

// Computes in f32, where the sources are exact. Sums are rounded to odd there, then once to the
// type. Products have at most 22 bits, so they are exact, with two exceptions for bf16: products
// below f32's numbers, which are no ties of bf16, and products beyond, which are infinite in both.
template <Arithmetic kOp>
inline float Exact(float a, float b) {
  if constexpr (kOp == Arithmetic::kAdd) return F32AddToOdd(a, b);
  if constexpr (kOp == Arithmetic::kSub) return F32AddToOdd(a, -b);
  return a * b;
}

enum class Finish : uint8_t { kPlain, kSat, kRelu };

// The pattern that the fill mode NaN of tensor maps writes outside of the tensor. For fma.oob an
// H200 takes it with either sign, as a factor only, whatever the other operands are.
constexpr uint16_t kOobNan = 0x7FF7;

template <Finish kFinish, typename T>
inline T Finished(T value) {
  if constexpr (kFinish == Finish::kSat) return value > 0 ? (value > 1 ? T{1} : value) : T{0};
  // .relu clamps negative results to +0; NaN stays NaN
  if constexpr (kFinish == Finish::kRelu) return value <= 0 ? T{0} : value;
  return value;
}

template <Arithmetic kOp, Element kElement, Finish kFinish>
struct HalfBinary {
  uint16_t operator()(uint16_t a, uint16_t b) const {
    return Encode<kElement>(
        Finished<kFinish>(Exact<kOp>(Decode<kElement>(a), Decode<kElement>(b))));
  }
};

// The product must be exact in f32.
template <Element kElement, Finish kFinish, bool kOob = false>
struct HalfFma {
  uint16_t operator()(uint16_t a, uint16_t b, uint16_t c) const {
    const bool oob = kOob && ((a & 0x7FFF) == kOobNan || (b & 0x7FFF) == kOobNan);
    const float product = Decode<kElement>(a) * Decode<kElement>(b);
    const float value = F32AddToOdd(product, Decode<kElement>(c));
    return oob ? 0 : Encode<kElement>(Finished<kFinish>(value));
  }
};

// Computes in f64, for products of bf16.
template <Finish kFinish, bool kOob = false>
struct WideFma {
  uint16_t operator()(uint16_t a, uint16_t b, uint16_t c) const {
    const bool oob = kOob && ((a & 0x7FFF) == kOobNan || (b & 0x7FFF) == kOobNan);
    const double product = static_cast<double>(Bf16ToF32(a)) * Bf16ToF32(b);
    const double added = Bf16ToF32(c), sum = product + added;
    const float nearest = static_cast<float>(sum);
    const float value = OddNeighbour(nearest, (sum - nearest) + ErrorOfSum(product, added, sum));
    return oob ? 0 : F32ToBf16(Finished<kFinish>(value));
  }
};

template <bool kMax, Element kElement, bool kNan, bool kXorsign>
struct HalfMinMax {
  uint16_t operator()(uint16_t a, uint16_t b) const {
    uint16_t sign = kXorsign ? (a ^ b) & 0x8000 : 0;
    if (kXorsign) a &= 0x7FFF, b &= 0x7FFF;
    float value = MinMax<kMax, kNan>(Decode<kElement>(a), Decode<kElement>(b));
    if (value != value) return 0x7FFF;
    return static_cast<uint16_t>(Encode<kElement>(value) | sign);
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

// Returns a number other than 0 if the product of two pairs of bf16 (or of one pair, below zeros)
// may be inexact in f32. Tests the sums of biased exponents, each in 16 bits.
inline uint32_t MayLose(uint32_t a, uint32_t b) {
  constexpr uint32_t kBoth = 0x00010001u, kTop = 0x8000u * kBoth;
  constexpr uint32_t kLeast = 2 * 127 - 100, kBeyond = 2 * 127 + 126;
  const uint32_t sum = (a >> 7 & 0xFF * kBoth) + (b >> 7 & 0xFF * kBoth);
  const uint32_t outside = ~(sum + kTop - kLeast * kBoth) | (sum + kTop - kBeyond * kBoth);
  const uint32_t nonzero = (a & 0x7FFF * kBoth) + 0x7FFF * kBoth;
  return outside & nonzero & ((b & 0x7FFF * kBoth) + 0x7FFF * kBoth) & kTop;
}

template <typename T>
[[gnu::always_inline]] inline bool AnyLoses(const Warp& w, const Op& op) {
  const T* a = w.Reg<T>(op.a[1]);
  const T* b = w.Reg<T>(op.a[2]);
  uint32_t any = 0;
  for (int i = 0; i < kLanes; ++i) any |= MayLose(a[i], b[i]);
  return any != 0;
}

template <typename Narrow, typename Wide, typename T>
Flow Bf16Fma(Warp& w, const Op& op, uint32_t mask) {
  return AnyLoses<T>(w, op) ? TernaryBase<Wide, T, T, T, T>(w, op, mask)
                            : TernaryBase<Narrow, T, T, T, T>(w, op, mask);
}
template <typename Narrow, typename Wide, typename T>
TL_WIDE_TARGET Flow Bf16FmaWide(Warp& w, const Op& op, uint32_t mask) {
  return AnyLoses<T>(w, op) ? TernaryWide<Wide, T, T, T, T>(w, op, mask)
                            : TernaryWide<Narrow, T, T, T, T>(w, op, mask);
}

template <Element kElement, Finish kFinish, bool kOob = false>
Handler FmaOf(bool packed) {
  using Narrow = HalfFma<kElement, kFinish, kOob>;
  using Wide = WideFma<kFinish, kOob>;
  if constexpr (kElement != Element::kBf16) {
    return TernaryOf<Narrow>(packed);
  } else if (packed) {
    return HasWideTarget() ? Bf16FmaWide<OnHalves<Narrow>, OnHalves<Wide>, uint32_t>
                           : Bf16Fma<OnHalves<Narrow>, OnHalves<Wide>, uint32_t>;
  } else {
    return HasWideTarget() ? Bf16FmaWide<Narrow, Wide, uint16_t> : Bf16Fma<Narrow, Wide, uint16_t>;
  }
}

template <Arithmetic kOp, Element kElement>
Handler OfOperation(const FloatModifiers& m, bool packed) {
  if constexpr (kOp == Arithmetic::kFma) {
    if (m.out_of_bounds) {
      if (kElement == Element::kF16Flushed || m.saturate) return nullptr;
      return m.relu ? FmaOf<kElement, Finish::kRelu, true>(packed)
                    : FmaOf<kElement, Finish::kPlain, true>(packed);
    }
    if (m.saturate) return FmaOf<kElement, Finish::kSat>(packed);
    if (m.relu) return FmaOf<kElement, Finish::kRelu>(packed);
    return FmaOf<kElement, Finish::kPlain>(packed);
  } else {
    if (m.saturate) return BinaryOf<HalfBinary<kOp, kElement, Finish::kSat>>(packed);
    return BinaryOf<HalfBinary<kOp, kElement, Finish::kPlain>>(packed);
  }
}

template <bool kMax, Element kElement>
Handler MinMaxOf(const FloatModifiers& m, bool packed) {
  if (m.xorsign) {
    return m.nan ? BinaryOf<HalfMinMax<kMax, kElement, true, true>>(packed)
                 : BinaryOf<HalfMinMax<kMax, kElement, false, true>>(packed);
  }
  return m.nan ? BinaryOf<HalfMinMax<kMax, kElement, true, false>>(packed)
               : BinaryOf<HalfMinMax<kMax, kElement, false, false>>(packed);
}

template <Element kElement>
Handler OfType(Arithmetic operation, const FloatModifiers& m, bool packed) {
  switch (operation) {
    case Arithmetic::kAdd:
      return OfOperation<Arithmetic::kAdd, kElement>(m, packed);
    case Arithmetic::kSub:
      return OfOperation<Arithmetic::kSub, kElement>(m, packed);
    case Arithmetic::kMul:
      return OfOperation<Arithmetic::kMul, kElement>(m, packed);
    case Arithmetic::kFma:
      return OfOperation<Arithmetic::kFma, kElement>(m, packed);
    case Arithmetic::kMin:
      return MinMaxOf<false, kElement>(m, packed);
    case Arithmetic::kMax:
      return MinMaxOf<true, kElement>(m, packed);
    default:
      return nullptr;
  }
}

// --- mixed precision ----------------------------------------------------------------------------

template <Rounding kRound, bool kSat>
inline float MixedResult(double value) {
  const float result = CanonicalNan(RoundToF32(value, kRound));
  return kSat ? Saturated(result) : result;
}

template <Element kElement, bool kSubtract, Rounding kRound, bool kSat>
struct MixedAdd {
  float operator()(uint16_t a, float c) const {
    return MixedResult<kRound, kSat>(SumToOdd<kRound>(Decode<kElement>(a), kSubtract ? -c : c));
  }
};
template <Element kElement, Rounding kRound, bool kSat>
struct MixedFma {
  float operator()(uint16_t a, uint16_t b, float c) const {
    const double product = static_cast<double>(Decode<kElement>(a)) * Decode<kElement>(b);
    return MixedResult<kRound, kSat>(SumToOdd<kRound>(product, c));
  }
};

template <Element kElement, Rounding kRound, bool kSat>
Handler MixedOf(Arithmetic operation) {
  switch (operation) {
    case Arithmetic::kAdd:
      return Binary<MixedAdd<kElement, false, kRound, kSat>, float, uint16_t, float>();
    case Arithmetic::kSub:
      return Binary<MixedAdd<kElement, true, kRound, kSat>, float, uint16_t, float>();
    case Arithmetic::kFma:
      return Ternary<MixedFma<kElement, kRound, kSat>, float, uint16_t, uint16_t, float>();
    default:
      return nullptr;
  }
}

template <Element kElement, Rounding kRound>
Handler MixedOf(Arithmetic operation, bool saturate) {
  return saturate ? MixedOf<kElement, kRound, true>(operation)
                  : MixedOf<kElement, kRound, false>(operation);
}

template <Element kElement>
Handler MixedOf(Arithmetic operation, const FloatModifiers& m) {
  switch (m.rounding) {
    case Rounding::kTowardZero:
      return MixedOf<kElement, Rounding::kTowardZero>(operation, m.saturate);
    case Rounding::kDown:
      return MixedOf<kElement, Rounding::kDown>(operation, m.saturate);
    case Rounding::kUp:
      return MixedOf<kElement, Rounding::kUp>(operation, m.saturate);
    default:
      return MixedOf<kElement, Rounding::kNearestEven>(operation, m.saturate);
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
  const bool packed = m.type == Type::kF16x2 || m.type == Type::kBF16x2;
  switch (m.type) {
    case Type::kF16:
    case Type::kF16x2:
      return m.flush ? OfType<Element::kF16Flushed>(operation, m, packed)
                     : OfType<Element::kF16>(operation, m, packed);
    case Type::kBF16:
    case Type::kBF16x2:
      return m.flush ? nullptr : OfType<Element::kBf16>(operation, m, packed);
    default:
      return nullptr;
  }
}

Handler MixedHandler(Arithmetic operation, const FloatModifiers& m) {
  if (m.type != Type::kF32 || m.flush || m.relu || m.out_of_bounds) return nullptr;
  if (m.source == Type::kF16) return MixedOf<Element::kF16>(operation, m);
  if (m.source == Type::kBF16) return MixedOf<Element::kBf16>(operation, m);
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
