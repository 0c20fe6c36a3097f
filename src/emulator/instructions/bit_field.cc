// Logic, shifts, bit fields, byte permutation, counting, packed dot products.
#include <array>
#include <bit>
#include <cstring>

#include "emulator/core/families.h"
#include "emulator/instructions/elementwise.h"

namespace tilelang::emulator {
namespace {

// clang-format off
struct And { template <typename T> T operator()(T a, T b) const { return a & b; } };
struct Or { template <typename T> T operator()(T a, T b) const { return a | b; } };
struct Xor { template <typename T> T operator()(T a, T b) const { return a ^ b; } };
struct Not { template <typename T> T operator()(T a) const { return static_cast<T>(~a); } };
struct Cnot { template <typename T> T operator()(T a) const { return a == 0; } };
// clang-format on

// Amounts beyond the width shift everything out.
struct ShiftLeft {
  template <typename T>
  T operator()(T a, uint32_t n) const {
    return n >= 8 * sizeof(T) ? T{0} : static_cast<T>(a << n);
  }
};
struct ShiftRight {
  template <typename T>
  T operator()(T a, uint32_t n) const {
    constexpr uint32_t kTop = 8 * sizeof(T) - 1;
    if (n > kTop) return std::is_signed_v<T> ? static_cast<T>(a >> kTop) : T{0};
    return static_cast<T>(a >> n);
  }
};

template <bool kLeft, bool kClamp>
struct Funnel {
  uint32_t operator()(uint32_t low, uint32_t high, uint32_t n) const {
    n = kClamp ? (n > 32 ? 32 : n) : n & 31;
    uint64_t both = uint64_t{high} << 32 | low;
    return static_cast<uint32_t>(kLeft ? (both << n) >> 32 : both >> n);
  }
};

struct PopCount {
  template <typename T>
  uint32_t operator()(T a) const {
    return static_cast<uint32_t>(std::popcount(a));
  }
};
struct LeadingZeros {
  template <typename T>
  uint32_t operator()(T a) const {
    return static_cast<uint32_t>(std::countl_zero(a));
  }
};
struct Reverse {
  template <typename T>
  T operator()(T a) const {
    T result = 0;
    for (size_t i = 0; i < 8 * sizeof(T); ++i)
      result = static_cast<T>(result << 1 | ((a >> i) & 1));
    return result;
  }
};
// Position of the highest bit that differs from the sign (0 for unsigned); -1 if none.
template <bool kShift>
struct FindHighest {
  template <typename T>
  uint32_t operator()(T a) const {
    using U = std::make_unsigned_t<T>;
    U bits = static_cast<U>(a < 0 ? ~a : a);
    if (bits == 0) return 0xFFFFFFFF;
    auto zeros = static_cast<uint32_t>(std::countl_zero(bits));
    return kShift ? zeros : static_cast<uint32_t>(8 * sizeof(T) - 1) - zeros;
  }
};

// Position and length of a field: 8 bits of the operand for 32-bit fields; hardware looks at all
// of it for 64-bit ones.
template <typename T>
uint64_t FieldOperand(uint32_t value) {
  return sizeof(T) == 4 ? value & 0xFF : value;
}

struct ExtractField {
  template <typename T>
  T operator()(T a, uint32_t at, uint32_t count) const {
    constexpr uint64_t kTop = 8 * sizeof(T) - 1;
    using U = std::make_unsigned_t<T>;
    uint64_t position = FieldOperand<T>(at), length = FieldOperand<T>(count);
    if (length == 0) return 0;
    uint64_t last = position + length - 1 < kTop ? position + length - 1 : kTop;
    bool sign = std::is_signed_v<T> && ((static_cast<U>(a) >> last) & 1);
    U field = position > kTop ? U{0} : static_cast<U>(static_cast<U>(a) >> position);
    uint64_t kept = position > kTop ? 0 : last - position + 1;
    U mask = kept > kTop ? static_cast<U>(~U{0}) : static_cast<U>((U{1} << kept) - 1);
    field &= mask;
    return static_cast<T>(sign ? field | static_cast<U>(~mask) : field);
  }
};

// bfi d, a, b, c, len: a into b at position c.
template <typename T>
Flow InsertField(Warp& w, const Op& op, uint32_t mask) {
  T* d = w.Reg<T>(op.a[0]);
  const T* a = w.Reg<T>(op.a[1]);
  const T* b = w.Reg<T>(op.a[2]);
  const uint32_t* position = w.Reg<uint32_t>(op.a[3]);
  const uint32_t* length = w.Reg<uint32_t>(op.a[4]);
  ForEachLane(mask, [&](int i) {
    uint64_t at = FieldOperand<T>(position[i]), n = FieldOperand<T>(length[i]);
    constexpr uint64_t kBits = 8 * sizeof(T);
    T field = n >= kBits ? ~T{0} : (T{1} << n) - 1;
    field = at >= kBits ? 0 : field << at;
    T value = at >= kBits ? 0 : a[i] << at;
    d[i] = (b[i] & ~field) | (value & field);
  });
  return Flow::kNext;
}

template <bool kClamp>
struct BitMask {
  uint32_t operator()(uint32_t position, uint32_t length) const {
    if (!kClamp) position &= 31, length &= 31;
    if (position > 31 || length == 0) return 0;
    uint32_t mask = length > 31 ? ~0u : (1u << length) - 1;
    return mask << position;
  }
};
template <bool kClamp, bool kSigned>
struct ExtendSign {
  uint32_t operator()(uint32_t a, uint32_t n) const {
    if (!kClamp) n &= 31;
    if (n > 31) return a;
    if (n == 0) return 0;
    uint32_t mask = (1u << n) - 1;
    bool sign = kSigned && ((a >> (n - 1)) & 1);
    return sign ? a | ~mask : a & mask;
  }
};

// n-th set bit from `base` upwards (n > 0) or downwards (n < 0); the base itself for n = 0.
struct FindNthSet {
  uint32_t operator()(uint32_t mask, uint32_t base, int32_t n) const {
    if (n == 0) return base < 32 && ((mask >> base) & 1) ? base : 0xFFFFFFFF;
    int step = n > 0 ? 1 : -1, count = n > 0 ? n : -n;
    for (int64_t at = base; at >= 0 && at < 32; at += step) {
      if (((mask >> at) & 1) && --count == 0) return static_cast<uint32_t>(at);
    }
    return 0xFFFFFFFF;
  }
};

// --- prmt, lop3
// -----------------------------------------------------------------------------------

uint32_t SelectByte(uint64_t bytes, uint32_t selector) {
  uint32_t byte = (bytes >> (8 * (selector & 7))) & 0xFF;
  return selector & 8 ? (byte & 0x80 ? 0xFF : 0) : byte;
}

struct Permute {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    uint64_t bytes = uint64_t{b} << 32 | a;
    uint32_t result = 0;
    for (int i = 0; i < 4; ++i) result |= SelectByte(bytes, c >> (4 * i)) << (8 * i);
    return result;
  }
};

// The selectors of prmt's named modes for c & 3 (PTX ISA, prmt, table of modes).
template <int kMode>
struct PermuteMode {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    static constexpr uint32_t kSelectors[6][4] = {{0x3210, 0x4321, 0x5432, 0x6543},   // f4e
                                                  {0x5670, 0x6701, 0x7012, 0x0123},   // b4e
                                                  {0x0000, 0x1111, 0x2222, 0x3333},   // rc8
                                                  {0x3210, 0x3211, 0x3222, 0x3333},   // ecl
                                                  {0x0000, 0x1110, 0x2210, 0x3210},   // ecr
                                                  {0x1010, 0x3232, 0x1010, 0x3232}};  // rc16
    return Permute()(a, b, kSelectors[kMode][c & 3]);
  }
};

Flow Lop3(Warp& w, const Op& op, uint32_t mask) {
  uint32_t* d = w.Reg<uint32_t>(op.a[0]);
  const uint32_t* a = w.Reg<uint32_t>(op.a[1]);
  const uint32_t* b = w.Reg<uint32_t>(op.a[2]);
  const uint32_t* c = w.Reg<uint32_t>(op.a[3]);
  uint32_t select[8];
  for (int k = 0; k < 8; ++k) select[k] = (op.flags >> k) & 1 ? kAllLanes : 0;
  Lanes(mask, [&](int i) {
    uint32_t x = a[i], y = b[i], z = c[i];
    d[i] = (select[0] & ~x & ~y & ~z) | (select[1] & ~x & ~y & z) | (select[2] & ~x & y & ~z) |
           (select[3] & ~x & y & z) | (select[4] & x & ~y & ~z) | (select[5] & x & ~y & z) |
           (select[6] & x & y & ~z) | (select[7] & x & y & z);
  });
  return Flow::kNext;
}

// --- dot products
// ---------------------------------------------------------------------------------

template <typename A, typename B>
struct Dot4 {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    for (int i = 0; i < 4; ++i) {
      int32_t x = static_cast<A>(a >> (8 * i)), y = static_cast<B>(b >> (8 * i));
      c += static_cast<uint32_t>(x * y);
    }
    return c;
  }
};
template <typename A, typename B, bool kHigh>
struct Dot2 {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    for (int i = 0; i < 2; ++i) {
      int32_t x = static_cast<A>(a >> (16 * i));
      int32_t y = static_cast<B>(b >> (8 * i + (kHigh ? 16 : 0)));
      c += static_cast<uint32_t>(x * y);
    }
    return c;
  }
};

// --- decoding
// -------------------------------------------------------------------------------------

template <typename F>
Flow PredicateBinary(Warp& w, const Op& op, uint32_t mask) {
  w.SetPredicate(op.a[0], mask, F()(w.Predicate(op.a[1]), w.Predicate(op.a[2])));
  return Flow::kNext;
}
Flow PredicateNot(Warp& w, const Op& op, uint32_t mask) {
  w.SetPredicate(op.a[0], mask, ~w.Predicate(op.a[1]));
  return Flow::kNext;
}

void Require(Decoder& d) {
  if (!d.op.handler) d.Unsupported();
}

template <typename F>
void DecodeLogic(Decoder& d) {
  Type type = d.mods.TakeType();
  if (type == Type::kPred) {
    d.op.handler = PredicateBinary<F>;
    d.Push(d.PredicateDestination(d.operand(0)));
    d.Push(d.Predicate(d.operand(1)));
    d.Push(d.Predicate(d.operand(2)));
    return;
  }
  switch (TypeBits(type)) {
    case 16:
      d.op.handler = Binary<F, uint16_t>();
      break;
    case 32:
      d.op.handler = Binary<F, uint32_t>();
      break;
    case 64:
      d.op.handler = Binary<F, uint64_t>();
      break;
    default:
      break;
  }
  Require(d);
  PushUniform(d, type, 2);
}

template <typename F>
void DecodeLogicUnary(Decoder& d) {
  Type type = d.mods.TakeType();
  if (type == Type::kPred) {
    d.op.handler = PredicateNot;
    d.Push(d.PredicateDestination(d.operand(0)));
    d.Push(d.Predicate(d.operand(1)));
    return;
  }
  switch (TypeBits(type)) {
    case 16:
      d.op.handler = Unary<F, uint16_t>();
      break;
    case 32:
      d.op.handler = Unary<F, uint32_t>();
      break;
    case 64:
      d.op.handler = Unary<F, uint64_t>();
      break;
    default:
      break;
  }
  Require(d);
  PushUniform(d, type, 1);
}

template <typename F>
Handler ShiftOf(Type type, bool arithmetic) {
  switch (TypeBits(type)) {
    case 16:
      return arithmetic ? Binary<F, int16_t, int16_t, uint32_t>()
                        : Binary<F, uint16_t, uint16_t, uint32_t>();
    case 32:
      return arithmetic ? Binary<F, int32_t, int32_t, uint32_t>()
                        : Binary<F, uint32_t, uint32_t, uint32_t>();
    case 64:
      return arithmetic ? Binary<F, int64_t, int64_t, uint32_t>()
                        : Binary<F, uint64_t, uint64_t, uint32_t>();
    default:
      return nullptr;
  }
}

template <typename F>
void DecodeShift(Decoder& d) {
  Type type = d.mods.TakeType();
  d.op.handler = ShiftOf<F>(type, IsSigned(type));
  Require(d);
  PushUniform(d, type, 1);
  d.PushSource(2, Type::kU32);
}

void DecodeFunnel(Decoder& d) {
  bool left = d.mods.TakeOneOf({"l", "r"}) == "l";
  bool clamp = d.mods.TakeOneOf({"clamp", "wrap"}) == "clamp";
  Type type = d.mods.TakeType();
  d.op.handler = left ? (clamp ? Ternary<Funnel<true, true>, uint32_t>()
                               : Ternary<Funnel<true, false>, uint32_t>())
                      : (clamp ? Ternary<Funnel<false, true>, uint32_t>()
                               : Ternary<Funnel<false, false>, uint32_t>());
  if (type != Type::kB32) d.Illegal("shf needs .b32");
  PushUniform(d, type, 3);
}

template <typename F>
void DecodeCount(Decoder& d) {
  Type type = d.mods.TakeType();
  d.op.handler =
      TypeBits(type) == 64 ? Unary<F, uint32_t, uint64_t>() : Unary<F, uint32_t, uint32_t>();
  d.PushDestination(0, Type::kU32);
  d.PushSource(1, type);
}

void DecodeReverse(Decoder& d) {
  Type type = d.mods.TakeType();
  d.op.handler = TypeBits(type) == 64 ? Unary<Reverse, uint64_t>() : Unary<Reverse, uint32_t>();
  PushUniform(d, type, 1);
}

template <bool kShift>
Handler FindOf(Type type) {
  switch (type) {
    case Type::kU32:
      return Unary<FindHighest<kShift>, uint32_t, uint32_t>();
    case Type::kS32:
      return Unary<FindHighest<kShift>, uint32_t, int32_t>();
    case Type::kU64:
      return Unary<FindHighest<kShift>, uint32_t, uint64_t>();
    case Type::kS64:
      return Unary<FindHighest<kShift>, uint32_t, int64_t>();
    default:
      return nullptr;
  }
}

void DecodeFind(Decoder& d) {
  bool shift = d.mods.Take("shiftamt");
  Type type = d.mods.TakeType();
  d.op.handler = shift ? FindOf<true>(type) : FindOf<false>(type);
  Require(d);
  d.PushDestination(0, Type::kU32);
  d.PushSource(1, type);
}

void DecodeExtract(Decoder& d) {
  Type type = d.mods.TakeType();
  switch (type) {
    case Type::kU32:
      d.op.handler = Ternary<ExtractField, uint32_t, uint32_t, uint32_t, uint32_t>();
      break;
    case Type::kS32:
      d.op.handler = Ternary<ExtractField, int32_t, int32_t, uint32_t, uint32_t>();
      break;
    case Type::kU64:
      d.op.handler = Ternary<ExtractField, uint64_t, uint64_t, uint32_t, uint32_t>();
      break;
    case Type::kS64:
      d.op.handler = Ternary<ExtractField, int64_t, int64_t, uint32_t, uint32_t>();
      break;
    default:
      break;
  }
  Require(d);
  PushUniform(d, type, 1);
  d.PushSource(2, Type::kU32);
  d.PushSource(3, Type::kU32);
}

void DecodeInsert(Decoder& d) {
  Type type = d.mods.TakeType();
  d.op.handler = TypeBits(type) == 64 ? InsertField<uint64_t> : InsertField<uint32_t>;
  PushUniform(d, type, 2);
  d.PushSource(3, Type::kU32);
  d.PushSource(4, Type::kU32);
}

void DecodeBitMask(Decoder& d) {
  bool clamp = d.mods.TakeOneOf({"clamp", "wrap"}) == "clamp";
  Type type = d.mods.TakeType();
  d.op.handler = clamp ? Binary<BitMask<true>, uint32_t>() : Binary<BitMask<false>, uint32_t>();
  PushUniform(d, type, 2);
}

void DecodeExtendSign(Decoder& d) {
  bool clamp = d.mods.TakeOneOf({"clamp", "wrap"}) == "clamp";
  Type type = d.mods.TakeType();
  bool is_signed = type == Type::kS32;
  d.op.handler = clamp ? (is_signed ? Binary<ExtendSign<true, true>, uint32_t>()
                                    : Binary<ExtendSign<true, false>, uint32_t>())
                       : (is_signed ? Binary<ExtendSign<false, true>, uint32_t>()
                                    : Binary<ExtendSign<false, false>, uint32_t>());
  PushUniform(d, type, 2);
}

void DecodeFindNth(Decoder& d) {
  d.mods.TakeType();
  d.op.handler = Ternary<FindNthSet, uint32_t, uint32_t, uint32_t, int32_t>();
  PushUniform(d, Type::kB32, 3);
}

void DecodePermute(Decoder& d) {
  std::string mode = d.mods.TakeOneOf({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"});
  Type type = d.mods.TakeType();
  d.op.handler = mode == "f4e"    ? Ternary<PermuteMode<0>, uint32_t>()
                 : mode == "b4e"  ? Ternary<PermuteMode<1>, uint32_t>()
                 : mode == "rc8"  ? Ternary<PermuteMode<2>, uint32_t>()
                 : mode == "ecl"  ? Ternary<PermuteMode<3>, uint32_t>()
                 : mode == "ecr"  ? Ternary<PermuteMode<4>, uint32_t>()
                 : mode == "rc16" ? Ternary<PermuteMode<5>, uint32_t>()
                                  : Ternary<Permute, uint32_t>();
  PushUniform(d, type, 3);
}

void Lop3Table(Decoder& d) {
  int64_t table = d.Integer(d.operand(4));
  if (table < 0 || table > 255) d.Illegal("the table of lop3 must be 0 to 255");
  d.op.flags = static_cast<uint16_t>(table);
}

// d|p = (a, b, c) by the table; p = (d != 0) or/and q. Slots: d, a, b, c, p, q.
template <bool kOr>
Flow Lop3Predicate(Warp& w, const Op& op, uint32_t mask) {
  Lop3(w, op, mask);
  const uint32_t* d = w.Reg<uint32_t>(op.a[0]);
  const uint32_t q = w.Predicate(op.slots[5]);
  uint32_t nonzero = 0;
  ForEachLane(mask, [&](int i) { nonzero |= uint32_t{d[i] != 0} << i; });
  w.SetPredicate(op.slots[4], mask, kOr ? nonzero | q : nonzero & q);
  return Flow::kNext;
}

void DecodeLop3Predicate(Decoder& d, bool is_or) {
  if (d.mods.TakeType() != Type::kB32) d.Unsupported();
  const ptx::Operand& target = d.operand(0);
  if (target.kind != ptx::Operand::Kind::kPair) {
    d.Illegal("the destination of '" + d.inst.Spelling() + "' must be a pair d|p");
  }
  d.Push(d.Destination(target.elements[0], Type::kB32));
  for (size_t i = 1; i <= 3; ++i) d.PushSource(i, Type::kB32);
  d.Push(d.PredicateDestination(target.elements[1]));
  d.Push(d.Predicate(d.operand(5)));
  d.op.handler = is_or ? Lop3Predicate<true> : Lop3Predicate<false>;
}

void DecodeLop3(Decoder& d) {
  const std::string combine = d.mods.TakeOneOf({"or", "and"});
  if (!combine.empty()) {
    DecodeLop3Predicate(d, combine == "or");
    return Lop3Table(d);
  }
  Type type = d.mods.TakeType();
  PushUniform(d, type, 3);
  Lop3Table(d);
  d.op.handler = Lop3;
}

template <template <typename, typename> class D>
Handler DotOf(Type a, Type b) {
  bool x = a == Type::kS32, y = b == Type::kS32;
  using S =
      std::conditional_t<std::is_same_v<D<int8_t, int8_t>, Dot4<int8_t, int8_t>>, int8_t, int16_t>;
  using U = std::make_unsigned_t<S>;
  if (x) return y ? Ternary<D<S, int8_t>, uint32_t>() : Ternary<D<S, uint8_t>, uint32_t>();
  return y ? Ternary<D<U, int8_t>, uint32_t>() : Ternary<D<U, uint8_t>, uint32_t>();
}
template <typename A, typename B>
using Dot2Low = Dot2<A, B, false>;
template <typename A, typename B>
using Dot2High = Dot2<A, B, true>;

void DecodeDot4(Decoder& d) {
  Type a = d.mods.TakeType(), b = d.mods.TakeType();
  d.op.handler = DotOf<Dot4>(a, b);
  PushUniform(d, Type::kB32, 3);
}

void DecodeDot2(Decoder& d) {
  bool high = d.mods.TakeOneOf({"lo", "hi"}) == "hi";
  Type a = d.mods.TakeType(), b = d.mods.TakeType();
  d.op.handler = high ? DotOf<Dot2High>(a, b) : DotOf<Dot2Low>(a, b);
  PushUniform(d, Type::kB32, 3);
}

}  // namespace

void RegisterBitField() {
  FamilyRegistry::Add("and", DecodeLogic<And>);
  FamilyRegistry::Add("or", DecodeLogic<Or>);
  FamilyRegistry::Add("xor", DecodeLogic<Xor>);
  FamilyRegistry::Add("not", DecodeLogicUnary<Not>);
  FamilyRegistry::Add("cnot", DecodeLogicUnary<Cnot>);
  FamilyRegistry::Add("shl", DecodeShift<ShiftLeft>);
  FamilyRegistry::Add("shr", DecodeShift<ShiftRight>);
  FamilyRegistry::Add("shf", DecodeFunnel);
  FamilyRegistry::Add("popc", DecodeCount<PopCount>);
  FamilyRegistry::Add("clz", DecodeCount<LeadingZeros>);
  FamilyRegistry::Add("brev", DecodeReverse);
  FamilyRegistry::Add("bfind", DecodeFind);
  FamilyRegistry::Add("bfe", DecodeExtract);
  FamilyRegistry::Add("bfi", DecodeInsert);
  FamilyRegistry::Add("bmsk", DecodeBitMask);
  FamilyRegistry::Add("szext", DecodeExtendSign);
  FamilyRegistry::Add("fns", DecodeFindNth);
  FamilyRegistry::Add("prmt", DecodePermute);
  FamilyRegistry::Add("lop3", DecodeLop3);
  FamilyRegistry::Add("dp4a", DecodeDot4);
  FamilyRegistry::Add("dp2a", DecodeDot2);
}

}  // namespace tilelang::emulator
