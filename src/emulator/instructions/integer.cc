// Integer arithmetic: add, sub, mul, mad, div, rem, min, max, abs, neg, sad, extended precision.
#include <limits>
#include <type_traits>

#include "emulator/core/families.h"
#include "emulator/instructions/elementwise.h"
#include "emulator/instructions/families_float.h"

namespace tilelang::emulator {
namespace {

// Wraps around for signed types too.
template <typename T>
using Unsigned = std::make_unsigned_t<T>;

struct Add {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Unsigned<T>>(a) + static_cast<Unsigned<T>>(b));
  }
};
struct Sub {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<Unsigned<T>>(a) - static_cast<Unsigned<T>>(b));
  }
};
struct AddSat {
  int32_t operator()(int32_t a, int32_t b) const {
    int64_t sum = int64_t{a} + b;
    return static_cast<int32_t>(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum);
  }
};
struct SubSat {
  int32_t operator()(int32_t a, int32_t b) const {
    int64_t sum = int64_t{a} - b;
    return static_cast<int32_t>(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum);
  }
};
struct Min {
  template <typename T>
  T operator()(T a, T b) const {
    return a < b ? a : b;
  }
};
struct Max {
  template <typename T>
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};
template <typename F>
struct Relu {
  template <typename T>
  T operator()(T a, T b) const {
    T value = F()(a, b);
    return value < 0 ? T{0} : value;
  }
};
// Two 16-bit halves; H is the type of a half.
template <typename F, typename H>
struct Halves {
  uint32_t operator()(uint32_t a, uint32_t b) const {
    auto low = static_cast<uint16_t>(F()(static_cast<H>(a), static_cast<H>(b)));
    auto high = static_cast<uint16_t>(F()(static_cast<H>(a >> 16), static_cast<H>(b >> 16)));
    return low | uint32_t{high} << 16;
  }
};
// Division by zero gives all ones, quotient and remainder, as hardware does.
struct Div {
  template <typename T>
  T operator()(T a, T b) const {
    if (b == 0) return static_cast<T>(~T{0});
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return Sub()(T{0}, a);
    return a / b;
  }
};
struct Rem {
  template <typename T>
  T operator()(T a, T b) const {
    if (b == 0) return static_cast<T>(~T{0});
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return a % b;
  }
};
struct Neg {
  template <typename T>
  T operator()(T a) const {
    return Sub()(T{0}, a);
  }
};
struct Abs {
  template <typename T>
  T operator()(T a) const {
    return a < 0 ? Sub()(T{0}, a) : a;
  }
};

template <typename T>
struct Wider;
template <>
struct Wider<int16_t> {
  using type = int32_t;
};
template <>
struct Wider<uint16_t> {
  using type = uint32_t;
};
template <>
struct Wider<int32_t> {
  using type = int64_t;
};
template <>
struct Wider<uint32_t> {
  using type = uint64_t;
};
template <>
struct Wider<int64_t> {
  using type = __int128;
};
template <>
struct Wider<uint64_t> {
  using type = unsigned __int128;
};
template <typename T>
using WiderOf = typename Wider<T>::type;

struct MulLo {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
};
struct MulHi {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>((WiderOf<T>{a} * WiderOf<T>{b}) >> (8 * sizeof(T)));
  }
};
struct MulWide {
  template <typename T>
  WiderOf<T> operator()(T a, T b) const {
    return WiderOf<T>{a} * WiderOf<T>{b};
  }
};
template <typename M>
struct Mad {
  template <typename T, typename C>
  C operator()(T a, T b, C c) const {
    return Add()(static_cast<C>(M()(a, b)), c);
  }
};
struct MadHiSat {
  int32_t operator()(int32_t a, int32_t b, int32_t c) const { return AddSat()(MulHi()(a, b), c); }
};
template <bool kHigh>
struct Mul24 {
  template <typename T>
  T operator()(T a, T b) const {
    using W = WiderOf<T>;
    W product = W{static_cast<T>(static_cast<T>(static_cast<Unsigned<T>>(a) << 8) >> 8)} *
                W{static_cast<T>(static_cast<T>(static_cast<Unsigned<T>>(b) << 8) >> 8)};
    return static_cast<T>(kHigh ? product >> 16 : product);
  }
};
struct Mad24HiSat {
  int32_t operator()(int32_t a, int32_t b, int32_t c) const {
    return AddSat()(Mul24<true>()(a, b), c);
  }
};
struct Sad {
  template <typename T>
  T operator()(T a, T b, T c) const {
    return Add()(c, a < b ? Sub()(b, a) : Sub()(a, b));
  }
};

template <typename F>
Handler BinaryOf(Type type) {
  switch (type) {
    case Type::kU16:
      return Binary<F, uint16_t>();
    case Type::kS16:
      return Binary<F, int16_t>();
    case Type::kU32:
      return Binary<F, uint32_t>();
    case Type::kS32:
      return Binary<F, int32_t>();
    case Type::kU64:
      return Binary<F, uint64_t>();
    case Type::kS64:
      return Binary<F, int64_t>();
    case Type::kU16x2:
      return Binary<Halves<F, uint16_t>, uint32_t>();
    case Type::kS16x2:
      return Binary<Halves<F, int16_t>, uint32_t>();
    default:
      return nullptr;
  }
}

void Finish(Decoder& d, Type type, int sources) {
  if (!d.op.handler) d.Unsupported();
  PushUniform(d, type, sources);
}

// --- extended precision: CC.CF ------------------------------------------------------------------

// d = a + b (+ CF), or a + ~b + 1 (+ CF instead of the 1); sets CF to the carry out of it if kSet.
// So CF after a subtraction is "no borrow", and additions may follow subtractions (on an H200 too).
template <typename T, bool kSubtract, bool kUse, bool kSet>
Flow Carry(Warp& w, const Op& op, uint32_t mask) {
  T* d = w.Reg<T>(op.a[0]);
  const T* a = w.Reg<T>(op.a[1]);
  const T* b = w.Reg<T>(op.a[2]);
  uint32_t carry = w.carry;
  ForEachLane(mask, [&](int i) {
    T y = kSubtract ? static_cast<T>(~b[i]) : b[i];
    unsigned c = kUse ? (carry >> i) & 1 : kSubtract;
    unsigned __int128 sum = static_cast<unsigned __int128>(a[i]) + y + c;
    d[i] = static_cast<T>(sum);
    uint32_t out = (sum >> (8 * sizeof(T))) & 1;
    if (kSet) carry = (carry & ~(1u << i)) | out << i;
  });
  w.carry = carry;
  return Flow::kNext;
}

template <bool kSubtract, bool kUse, bool kSet>
Handler CarryOf(Type type) {
  switch (type) {
    case Type::kU32:
    case Type::kS32:
      return Carry<uint32_t, kSubtract, kUse, kSet>;
    case Type::kU64:
    case Type::kS64:
      return Carry<uint64_t, kSubtract, kUse, kSet>;
    default:
      return nullptr;
  }
}

template <typename T, typename M, bool kUse, bool kSet>
Flow MadCarry(Warp& w, const Op& op, uint32_t mask) {
  T* d = w.Reg<T>(op.a[0]);
  const T* a = w.Reg<T>(op.a[1]);
  const T* b = w.Reg<T>(op.a[2]);
  const T* c = w.Reg<T>(op.a[3]);
  uint32_t carry = w.carry;
  ForEachLane(mask, [&](int i) {
    using U = Unsigned<T>;
    unsigned __int128 sum = static_cast<U>(M()(a[i], b[i]));
    sum += static_cast<U>(c[i]);
    if (kUse) sum += (carry >> i) & 1;
    d[i] = static_cast<T>(sum);
    uint32_t out = (sum >> (8 * sizeof(T))) & 1;
    if (kSet) carry = (carry & ~(1u << i)) | out << i;
  });
  w.carry = carry;
  return Flow::kNext;
}

template <typename M, bool kUse, bool kSet>
Handler MadCarryOf(Type type) {
  switch (type) {
    case Type::kU32:
      return MadCarry<uint32_t, M, kUse, kSet>;
    case Type::kS32:
      return MadCarry<int32_t, M, kUse, kSet>;
    case Type::kU64:
      return MadCarry<uint64_t, M, kUse, kSet>;
    case Type::kS64:
      return MadCarry<int64_t, M, kUse, kSet>;
    default:
      return nullptr;
  }
}

// --- decoding -----------------------------------------------------------------------------------

template <bool kSubtract>
void DecodeAddSub(Decoder& d) {
  if (DecodeFloatAddSub(d, kSubtract)) return;
  using F = std::conditional_t<kSubtract, Sub, Add>;
  Type type = d.mods.TakeType();
  if (d.mods.Take("cc")) {
    d.op.handler = CarryOf<kSubtract, false, true>(type);
  } else if (d.mods.Take("sat")) {
    if (type != Type::kS32) d.Illegal(".sat applies to .s32 only");
    d.op.handler = Binary<std::conditional_t<kSubtract, SubSat, AddSat>, int32_t>();
  } else {
    d.op.handler = BinaryOf<F>(type);
  }
  Finish(d, type, 2);
}

template <bool kSubtract>
void DecodeAddSubCarry(Decoder& d) {
  Type type = d.mods.TakeType();
  d.op.handler = d.mods.Take("cc") ? CarryOf<kSubtract, true, true>(type)
                                   : CarryOf<kSubtract, true, false>(type);
  Finish(d, type, 2);
}

Type WideType(Type type) {
  switch (type) {
    case Type::kU16:
      return Type::kU32;
    case Type::kS16:
      return Type::kS32;
    case Type::kU32:
      return Type::kU64;
    case Type::kS32:
      return Type::kS64;
    default:
      return Type::kNone;
  }
}

void DecodeMul(Decoder& d) {
  if (DecodeFloatMul(d)) return;
  Type type = d.mods.TakeType();
  std::string part = d.mods.TakeOneOf({"lo", "hi", "wide"});
  if (part == "wide") {
    switch (type) {
      case Type::kU16:
        d.op.handler = Binary<MulWide, uint32_t, uint16_t>();
        break;
      case Type::kS16:
        d.op.handler = Binary<MulWide, int32_t, int16_t>();
        break;
      case Type::kU32:
        d.op.handler = Binary<MulWide, uint64_t, uint32_t>();
        break;
      case Type::kS32:
        d.op.handler = Binary<MulWide, int64_t, int32_t>();
        break;
      default:
        d.Illegal("mul.wide needs a 16-bit or 32-bit integer type");
    }
    d.PushDestination(0, WideType(type));
    d.PushSource(1, type);
    d.PushSource(2, type);
    return;
  }
  d.op.handler = part == "hi" ? nullptr : BinaryOf<MulLo>(type);
  if (part == "hi") {
    switch (type) {
      case Type::kU16:
        d.op.handler = Binary<MulHi, uint16_t>();
        break;
      case Type::kS16:
        d.op.handler = Binary<MulHi, int16_t>();
        break;
      case Type::kU32:
        d.op.handler = Binary<MulHi, uint32_t>();
        break;
      case Type::kS32:
        d.op.handler = Binary<MulHi, int32_t>();
        break;
      case Type::kU64:
        d.op.handler = Binary<MulHi, uint64_t>();
        break;
      case Type::kS64:
        d.op.handler = Binary<MulHi, int64_t>();
        break;
      default:
        break;
    }
  }
  Finish(d, type, 2);
}

template <typename M>
Handler MadOf(Type type) {
  switch (type) {
    case Type::kU16:
      return Ternary<Mad<M>, uint16_t>();
    case Type::kS16:
      return Ternary<Mad<M>, int16_t>();
    case Type::kU32:
      return Ternary<Mad<M>, uint32_t>();
    case Type::kS32:
      return Ternary<Mad<M>, int32_t>();
    case Type::kU64:
      return Ternary<Mad<M>, uint64_t>();
    case Type::kS64:
      return Ternary<Mad<M>, int64_t>();
    default:
      return nullptr;
  }
}

void DecodeMadWide(Decoder& d, Type type) {
  switch (type) {
    case Type::kU16:
      d.op.handler = Ternary<Mad<MulWide>, uint32_t, uint16_t, uint16_t, uint32_t>();
      break;
    case Type::kS16:
      d.op.handler = Ternary<Mad<MulWide>, int32_t, int16_t, int16_t, int32_t>();
      break;
    case Type::kU32:
      d.op.handler = Ternary<Mad<MulWide>, uint64_t, uint32_t, uint32_t, uint64_t>();
      break;
    case Type::kS32:
      d.op.handler = Ternary<Mad<MulWide>, int64_t, int32_t, int32_t, int64_t>();
      break;
    default:
      d.Illegal("mad.wide needs a 16-bit or 32-bit integer type");
  }
  d.PushDestination(0, WideType(type));
  d.PushSource(1, type);
  d.PushSource(2, type);
  d.PushSource(3, WideType(type));
}

void DecodeMad(Decoder& d) {
  if (DecodeFloatFma(d)) return;
  Type type = d.mods.TakeType();
  std::string part = d.mods.TakeOneOf({"lo", "hi", "wide"});
  if (part == "wide") return DecodeMadWide(d, type);
  bool high = part == "hi";
  if (d.mods.Take("cc")) {
    d.op.handler =
        high ? MadCarryOf<MulHi, false, true>(type) : MadCarryOf<MulLo, false, true>(type);
  } else if (d.mods.Take("sat")) {
    if (!high || type != Type::kS32) d.Illegal("mad.sat needs .hi.s32");
    d.op.handler = Ternary<MadHiSat, int32_t>();
  } else {
    d.op.handler = high ? MadOf<MulHi>(type) : MadOf<MulLo>(type);
  }
  Finish(d, type, 3);
}

void DecodeMadCarry(Decoder& d) {
  Type type = d.mods.TakeType();
  bool high = d.mods.TakeOneOf({"lo", "hi"}) == "hi";
  bool set = d.mods.Take("cc");
  if (high) {
    d.op.handler = set ? MadCarryOf<MulHi, true, true>(type) : MadCarryOf<MulHi, true, false>(type);
  } else {
    d.op.handler = set ? MadCarryOf<MulLo, true, true>(type) : MadCarryOf<MulLo, true, false>(type);
  }
  Finish(d, type, 3);
}

template <typename F>
void DecodeMinMax(Decoder& d, bool is_max) {
  if (DecodeFloatMinMax(d, is_max)) return;
  Type type = d.mods.TakeType();
  if (d.mods.Take("relu")) {
    if (type == Type::kS32) {
      d.op.handler = Binary<Relu<F>, int32_t>();
    } else if (type == Type::kS16x2) {
      d.op.handler = Binary<Halves<Relu<F>, int16_t>, uint32_t>();
    }
  } else {
    d.op.handler = BinaryOf<F>(type);
  }
  Finish(d, type, 2);
}

void DecodeMin(Decoder& d) { DecodeMinMax<Min>(d, false); }
void DecodeMax(Decoder& d) { DecodeMinMax<Max>(d, true); }

void DecodeDiv(Decoder& d) {
  if (DecodeFloatDiv(d)) return;
  Type type = d.mods.TakeType();
  d.op.handler = BinaryOf<Div>(type);
  Finish(d, type, 2);
}

void DecodeRem(Decoder& d) {
  Type type = d.mods.TakeType();
  d.op.handler = BinaryOf<Rem>(type);
  Finish(d, type, 2);
}

template <typename F>
Handler SignedUnary(Type type) {
  switch (type) {
    case Type::kS16:
      return Unary<F, int16_t>();
    case Type::kS32:
      return Unary<F, int32_t>();
    case Type::kS64:
      return Unary<F, int64_t>();
    default:
      return nullptr;
  }
}

void DecodeNeg(Decoder& d) {
  if (DecodeFloatSign(d, true)) return;
  Type type = d.mods.TakeType();
  d.op.handler = SignedUnary<Neg>(type);
  Finish(d, type, 1);
}

void DecodeAbs(Decoder& d) {
  if (DecodeFloatSign(d, false)) return;
  Type type = d.mods.TakeType();
  d.op.handler = SignedUnary<Abs>(type);
  Finish(d, type, 1);
}

template <bool kHigh>
Handler Mul24Of(Type type, bool add) {
  using M = Mul24<kHigh>;
  if (type == Type::kU32) return add ? Ternary<Mad<M>, uint32_t>() : Binary<M, uint32_t>();
  if (type == Type::kS32) return add ? Ternary<Mad<M>, int32_t>() : Binary<M, int32_t>();
  return nullptr;
}

template <bool kAdd>
void DecodeMul24(Decoder& d) {
  Type type = d.mods.TakeType();
  bool high = d.mods.TakeOneOf({"lo", "hi"}) == "hi";
  d.op.handler = high ? Mul24Of<true>(type, kAdd) : Mul24Of<false>(type, kAdd);
  if (d.mods.Take("sat")) {
    const bool exists = kAdd && high && type == Type::kS32;
    d.op.handler = exists ? Ternary<Mad24HiSat, int32_t>() : nullptr;
  }
  Finish(d, type, kAdd ? 3 : 2);
}

void DecodeSad(Decoder& d) {
  Type type = d.mods.TakeType();
  switch (type) {
    case Type::kU16:
      d.op.handler = Ternary<Sad, uint16_t>();
      break;
    case Type::kS16:
      d.op.handler = Ternary<Sad, int16_t>();
      break;
    case Type::kU32:
      d.op.handler = Ternary<Sad, uint32_t>();
      break;
    case Type::kS32:
      d.op.handler = Ternary<Sad, int32_t>();
      break;
    case Type::kU64:
      d.op.handler = Ternary<Sad, uint64_t>();
      break;
    case Type::kS64:
      d.op.handler = Ternary<Sad, int64_t>();
      break;
    default:
      break;
  }
  Finish(d, type, 3);
}

}  // namespace

void RegisterInteger() {
  FamilyRegistry::Add("add", DecodeAddSub<false>);
  FamilyRegistry::Add("sub", DecodeAddSub<true>);
  FamilyRegistry::Add("addc", DecodeAddSubCarry<false>);
  FamilyRegistry::Add("subc", DecodeAddSubCarry<true>);
  FamilyRegistry::Add("mul", DecodeMul);
  FamilyRegistry::Add("mad", DecodeMad);
  FamilyRegistry::Add("madc", DecodeMadCarry);
  FamilyRegistry::Add("mul24", DecodeMul24<false>);
  FamilyRegistry::Add("mad24", DecodeMul24<true>);
  FamilyRegistry::Add("sad", DecodeSad);
  FamilyRegistry::Add("div", DecodeDiv);
  FamilyRegistry::Add("rem", DecodeRem);
  FamilyRegistry::Add("min", DecodeMin);
  FamilyRegistry::Add("max", DecodeMax);
  FamilyRegistry::Add("neg", DecodeNeg);
  FamilyRegistry::Add("abs", DecodeAbs);
}

}  // namespace tilelang::emulator
