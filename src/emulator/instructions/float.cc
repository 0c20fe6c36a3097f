// Decoding of add, sub, mul, fma, div, min, max, neg, abs, copysign for float types, and f32.
#include <algorithm>

#include "emulator/core/families.h"
#include "emulator/instructions/elementwise.h"
#include "emulator/instructions/families_float.h"
#include "emulator/instructions/float_ops.h"

namespace tilelang::emulator {

bool HasFloatType(const Decoder& d) {
  return std::any_of(d.mods.rest().begin(), d.mods.rest().end(),
                     [](const std::string& name) { return IsFloat(ParseType(name)); });
}

FloatModifiers TakeFloatModifiers(Decoder& d) {
  FloatModifiers m;
  std::string rounding = d.mods.TakeOneOf({"rn", "rz", "rm", "rp"}, "rn");
  m.rounding = rounding == "rz"   ? Rounding::kTowardZero
               : rounding == "rm" ? Rounding::kDown
               : rounding == "rp" ? Rounding::kUp
                                  : Rounding::kNearestEven;
  m.flush = d.mods.Take("ftz");
  m.saturate = d.mods.Take("sat");
  m.relu = d.mods.Take("relu");
  m.nan = d.mods.Take("NaN");
  m.approximate = d.mods.Take("approx");
  m.full = d.mods.Take("full");
  m.out_of_bounds = d.mods.Take("oob");
  if (d.mods.Take("xorsign")) {
    m.xorsign = true;
    d.mods.Take("abs");
  } else {
    m.absolute = d.mods.Take("abs");
  }
  m.type = d.mods.TakeType();
  m.source = d.mods.TakeType();
  return m;
}

namespace {

template <bool kFtz>
inline float In(float a) {
  return kFtz ? FlushSubnormal(a) : a;
}

template <bool kFtz, bool kSat>
inline float Out(float value) {
  value = CanonicalNan(value);
  if (kFtz) value = FlushSubnormal(value);
  return kSat ? Saturated(value) : value;
}

template <Arithmetic kOp>
inline float Nearest(float a, float b) {
  if constexpr (kOp == Arithmetic::kAdd) return a + b;
  if constexpr (kOp == Arithmetic::kSub) return a - b;
  if constexpr (kOp == Arithmetic::kMul) return a * b;
  if constexpr (kOp == Arithmetic::kDiv) return a / b;
}

template <Arithmetic kOp, Rounding kRound>
inline float Rounded(float a, float b) {
  if constexpr (kRound == Rounding::kNearestEven) {
    return Nearest<kOp>(a, b);
  } else {
    double x = a, y = b, exact = 0;
    if constexpr (kOp == Arithmetic::kAdd) exact = SumToOdd<kRound>(x, y);
    if constexpr (kOp == Arithmetic::kSub) exact = SumToOdd<kRound>(x, -y);
    if constexpr (kOp == Arithmetic::kMul) exact = x * y;
    if constexpr (kOp == Arithmetic::kDiv) exact = DivideToOdd(x, y);
    return RoundToF32(exact, kRound);
  }
}

template <Arithmetic kOp, Rounding kRound, bool kFtz, bool kSat>
struct F32Binary {
  float operator()(float a, float b) const {
    return Out<kFtz, kSat>(Rounded<kOp, kRound>(In<kFtz>(a), In<kFtz>(b)));
  }
};

template <Rounding kRound, bool kFtz, bool kSat>
struct F32Fma {
  [[gnu::always_inline]] float operator()(float a, float b, float c) const {
    a = In<kFtz>(a), b = In<kFtz>(b), c = In<kFtz>(c);
    if constexpr (kRound == Rounding::kNearestEven) {
      return Out<kFtz, kSat>(__builtin_fmaf(a, b, c));
    } else {
      const double product = static_cast<double>(a) * b;  // exact
      return Out<kFtz, kSat>(RoundToF32(SumToOdd<kRound>(product, c), kRound));
    }
  }
};

template <bool kMax, bool kNan, bool kFtz>
struct F32MinMax {
  float operator()(float a, float b) const {
    return CanonicalNan(MinMax<kMax, kNan>(In<kFtz>(a), In<kFtz>(b)));
  }
  float operator()(float a, float b, float c) const { return (*this)((*this)(a, b), c); }
};

template <bool kMax, bool kNan>
struct F32MinMaxXorsign {
  float operator()(float a, float b) const {
    uint32_t sign = (std::bit_cast<uint32_t>(a) ^ std::bit_cast<uint32_t>(b)) & 0x80000000u;
    float value = MinMax<kMax, kNan>(std::fabs(a), std::fabs(b));
    if (value != value) return CanonicalNan(value);
    return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
  }
};

struct Pair {
  float low, high;
};
template <typename F>
struct OnPair {
  [[gnu::always_inline]] Pair operator()(Pair a, Pair b) const {
    return {F()(a.low, b.low), F()(a.high, b.high)};
  }
  [[gnu::always_inline]] Pair operator()(Pair a, Pair b, Pair c) const {
    return {F()(a.low, b.low, c.low), F()(a.high, b.high, c.high)};
  }
};

template <typename F, bool kPair>
Handler BinaryHandler() {
  if constexpr (kPair) {
    return Binary<OnPair<F>, Pair>();
  } else {
    return Binary<F, float>();
  }
}

template <typename F, bool kPair>
Handler TernaryHandler() {
  if constexpr (kPair) {
    return Ternary<OnPair<F>, Pair>();
  } else {
    return Ternary<F, float>();
  }
}

template <Arithmetic kOp, Rounding kRound, bool kPair>
Handler OfRounding(const FloatModifiers& m) {
  if constexpr (kOp == Arithmetic::kFma) {
    if (m.saturate) {
      if (kPair) return nullptr;
      return m.flush ? TernaryHandler<F32Fma<kRound, true, true>, false>()
                     : TernaryHandler<F32Fma<kRound, false, true>, false>();
    }
    return m.flush ? TernaryHandler<F32Fma<kRound, true, false>, kPair>()
                   : TernaryHandler<F32Fma<kRound, false, false>, kPair>();
  } else {
    if (m.saturate) {
      if (kPair) return nullptr;
      return m.flush ? BinaryHandler<F32Binary<kOp, kRound, true, true>, false>()
                     : BinaryHandler<F32Binary<kOp, kRound, false, true>, false>();
    }
    return m.flush ? BinaryHandler<F32Binary<kOp, kRound, true, false>, kPair>()
                   : BinaryHandler<F32Binary<kOp, kRound, false, false>, kPair>();
  }
}

template <Arithmetic kOp, bool kPair>
Handler OfOperation(const FloatModifiers& m) {
  switch (m.rounding) {
    case Rounding::kNearestEven:
      return OfRounding<kOp, Rounding::kNearestEven, kPair>(m);
    case Rounding::kTowardZero:
      return OfRounding<kOp, Rounding::kTowardZero, kPair>(m);
    case Rounding::kDown:
      return OfRounding<kOp, Rounding::kDown, kPair>(m);
    default:
      return OfRounding<kOp, Rounding::kUp, kPair>(m);
  }
}

template <bool kMax>
Handler MinMaxHandler(const FloatModifiers& m) {
  if (m.xorsign) {
    return m.nan ? Binary<F32MinMaxXorsign<kMax, true>, float>()
                 : Binary<F32MinMaxXorsign<kMax, false>, float>();
  }
  if (m.nan) {
    return m.flush ? Binary<F32MinMax<kMax, true, true>, float>()
                   : Binary<F32MinMax<kMax, true, false>, float>();
  }
  return m.flush ? Binary<F32MinMax<kMax, false, true>, float>()
                 : Binary<F32MinMax<kMax, false, false>, float>();
}

template <bool kMax>
Handler MinMax3Handler(const FloatModifiers& m) {
  if (m.xorsign) return nullptr;
  if (m.nan) {
    return m.flush ? Ternary<F32MinMax<kMax, true, true>, float>()
                   : Ternary<F32MinMax<kMax, true, false>, float>();
  }
  return m.flush ? Ternary<F32MinMax<kMax, false, true>, float>()
                 : Ternary<F32MinMax<kMax, false, false>, float>();
}

// --- neg, abs, copysign: the sign bit. PTX leaves open which NaN neg and abs give: as an H200 ---

// kSign: the sign bits of the elements in U; kExponent: their exponents' bits.
template <typename U, U kSign, U kExponent, bool kNegate, bool kFtz>
struct SignBits {
  U operator()(U a) const {
    if (kFtz && (a & kExponent) == 0) a &= kSign;
    U result = static_cast<U>(kNegate ? a ^ kSign : a & ~kSign);
    if constexpr (sizeof(U) == 8) {  // NaN keeps its payload and sign, and becomes quiet
      if ((a & ~kSign) > kExponent) return a | (kExponent & ~(kExponent << 1)) >> 1;
    } else {
      if ((a & static_cast<U>(~kSign)) > kExponent) return static_cast<U>(~kSign);
    }
    return result;
  }
};

template <typename F>
struct OnHalves {
  uint32_t operator()(uint32_t a) const {
    return F()(static_cast<uint16_t>(a)) | uint32_t{F()(static_cast<uint16_t>(a >> 16))} << 16;
  }
};

template <typename U, U kSign, U kExponent, bool kNegate>
Handler SignHandler(bool flush) {
  return flush ? Unary<SignBits<U, kSign, kExponent, kNegate, true>, U>()
               : Unary<SignBits<U, kSign, kExponent, kNegate, false>, U>();
}
template <uint16_t kExponent, bool kNegate>
Handler PackedSignHandler(bool flush) {
  return flush ? Unary<OnHalves<SignBits<uint16_t, 0x8000, kExponent, kNegate, true>>, uint32_t>()
               : Unary<OnHalves<SignBits<uint16_t, 0x8000, kExponent, kNegate, false>>, uint32_t>();
}

template <bool kNegate>
Handler SignHandler(Type type, bool flush) {
  switch (type) {
    case Type::kF64:
      return SignHandler<uint64_t, 1ull << 63, 0x7FFull << 52, kNegate>(flush);
    case Type::kF32:
      return SignHandler<uint32_t, 0x80000000u, 0x7F800000u, kNegate>(flush);
    case Type::kF16x2:
      return PackedSignHandler<0x7C00, kNegate>(flush);
    case Type::kBF16x2:
      return PackedSignHandler<0x7F80, kNegate>(flush);
    case Type::kF16:
      return SignHandler<uint16_t, 0x8000, 0x7C00, kNegate>(flush);
    case Type::kBF16:
      return SignHandler<uint16_t, 0x8000, 0x7F80, kNegate>(flush);
    default:
      return nullptr;
  }
}

template <typename U, U kSign>
struct CopySign {
  U operator()(U a, U b) const { return (a & kSign) | (b & ~kSign); }
};

void DecodeCopySign(Decoder& d) {
  Type type = d.mods.TakeType();
  d.op.handler = type == Type::kF64 ? Binary<CopySign<uint64_t, 0x8000000000000000u>, uint64_t>()
                                    : Binary<CopySign<uint32_t, 0x80000000u>, uint32_t>();
  PushUniform(d, type, 2);
}

// --- decoding -----------------------------------------------------------------------------------

bool Decode(Decoder& d, Arithmetic operation, int sources) {
  if (!HasFloatType(d)) return false;
  FloatModifiers m = TakeFloatModifiers(d);
  if (m.source != Type::kNone && m.source != m.type) {
    d.op.handler = MixedHandler(operation, m);
    if (!d.op.handler) d.Unsupported();
    d.PushDestination(0, Type::kF32);
    for (int i = 1; i <= sources; ++i) d.PushSource(i, i == sources ? Type::kF32 : m.source);
    return true;
  }
  if (m.absolute) {
    if (d.size() != 4) d.Illegal("'" + d.inst.Spelling() + "': .abs needs .xorsign");
    d.Unsupported();
  }
  d.op.flags = HostRounding(m.rounding);
  switch (m.type) {
    case Type::kF32:
      d.op.handler = F32Handler(operation, m);
      break;
    case Type::kF32x2:
      d.op.handler = F32x2Handler(operation, m);
      break;
    case Type::kF64:
      d.op.handler = F64Handler(operation, m);
      break;
    default:
      d.op.handler = HalfHandler(operation, m);
  }
  bool minmax = operation == Arithmetic::kMin || operation == Arithmetic::kMax;
  if (minmax && d.size() == 4) {  // three inputs
    if (m.type != Type::kF32) d.Unsupported("'" + d.inst.Spelling() + "' with three inputs");
    d.op.handler =
        operation == Arithmetic::kMax ? MinMax3Handler<true>(m) : MinMax3Handler<false>(m);
    sources = 3;
  }
  if (!d.op.handler) d.Unsupported();
  PushUniform(d, m.type, sources);
  return true;
}

void DecodeFma(Decoder& d) {
  if (!Decode(d, Arithmetic::kFma, 3)) d.Illegal("fma needs a float type");
}

}  // namespace

Handler F32Handler(Arithmetic operation, const FloatModifiers& m) {
  switch (operation) {
    case Arithmetic::kAdd:
      return OfOperation<Arithmetic::kAdd, false>(m);
    case Arithmetic::kSub:
      return OfOperation<Arithmetic::kSub, false>(m);
    case Arithmetic::kMul:
      return OfOperation<Arithmetic::kMul, false>(m);
    case Arithmetic::kFma:
      return OfOperation<Arithmetic::kFma, false>(m);
    // .approx and .full allow 2 ulp of error; the exact quotient is one of the allowed results.
    case Arithmetic::kDiv:
      return OfOperation<Arithmetic::kDiv, false>(m);
    case Arithmetic::kMin:
      return MinMaxHandler<false>(m);
    default:
      return MinMaxHandler<true>(m);
  }
}

Handler F32x2Handler(Arithmetic operation, const FloatModifiers& m) {
  switch (operation) {
    case Arithmetic::kAdd:
      return OfOperation<Arithmetic::kAdd, true>(m);
    case Arithmetic::kSub:
      return OfOperation<Arithmetic::kSub, true>(m);
    case Arithmetic::kMul:
      return OfOperation<Arithmetic::kMul, true>(m);
    case Arithmetic::kFma:
      return OfOperation<Arithmetic::kFma, true>(m);
    default:
      return nullptr;
  }
}

bool DecodeFloatAddSub(Decoder& d, bool subtract) {
  return Decode(d, subtract ? Arithmetic::kSub : Arithmetic::kAdd, 2);
}
bool DecodeFloatMul(Decoder& d) { return Decode(d, Arithmetic::kMul, 2); }
bool DecodeFloatFma(Decoder& d) { return Decode(d, Arithmetic::kFma, 3); }
bool DecodeFloatDiv(Decoder& d) { return Decode(d, Arithmetic::kDiv, 2); }
bool DecodeFloatMinMax(Decoder& d, bool is_max) {
  return Decode(d, is_max ? Arithmetic::kMax : Arithmetic::kMin, 2);
}

bool DecodeFloatSign(Decoder& d, bool negate) {
  if (!HasFloatType(d)) return false;
  bool flush = d.mods.Take("ftz");
  Type type = d.mods.TakeType();
  if (flush && type != Type::kF32 && type != Type::kF16 && type != Type::kF16x2) d.Unsupported();
  d.op.handler = negate ? SignHandler<true>(type, flush) : SignHandler<false>(type, flush);
  if (!d.op.handler) d.Unsupported();
  PushUniform(d, type, 1);
  return true;
}

void RegisterFloat() {
  FamilyRegistry::Add("fma", DecodeFma);
  FamilyRegistry::Add("copysign", DecodeCopySign);
}

}  // namespace tilelang::emulator
