// setp and set: comparisons of every type, combined with a predicate.
#include <cmath>
#include <string>

#include "emulator/core/families.h"
#include "emulator/instructions/elementwise.h"
#include "emulator/numerics/float_formats.h"

namespace tilelang::emulator {
namespace {

struct Half {
  uint16_t bits;
};
struct BHalf {
  uint16_t bits;
};
struct Flushed {
  float value;
};
struct FlushedHalf {
  uint16_t bits;
};

inline float Value(Half a) { return F16ToF32(a.bits); }
inline float Value(BHalf a) { return Bf16ToF32(a.bits); }
inline float Value(FlushedHalf a) { return F16ToF32((a.bits & 0x7C00) ? a.bits : a.bits & 0x8000); }
inline float Value(Flushed a) { return FlushSubnormal(a.value); }
template <typename T>
inline T Value(T a) {
  return a;
}

// clang-format off
struct Eq { template <typename T> bool operator()(T a, T b) const { return a == b; } };
struct Ne { template <typename T> bool operator()(T a, T b) const { return a < b || a > b; } };
struct Lt { template <typename T> bool operator()(T a, T b) const { return a < b; } };
struct Le { template <typename T> bool operator()(T a, T b) const { return a <= b; } };
struct Gt { template <typename T> bool operator()(T a, T b) const { return a > b; } };
struct Ge { template <typename T> bool operator()(T a, T b) const { return a >= b; } };
struct Equ { template <typename T> bool operator()(T a, T b) const { return !(a < b || a > b); } };
struct Neu { template <typename T> bool operator()(T a, T b) const { return !(a == b); } };
struct Ltu { template <typename T> bool operator()(T a, T b) const { return !(a >= b); } };
struct Leu { template <typename T> bool operator()(T a, T b) const { return !(a > b); } };
struct Gtu { template <typename T> bool operator()(T a, T b) const { return !(a <= b); } };
struct Geu { template <typename T> bool operator()(T a, T b) const { return !(a < b); } };
struct Num { template <typename T> bool operator()(T a, T b) const { return a == a && b == b; } };
struct Nan { template <typename T> bool operator()(T a, T b) const { return a != a || b != b; } };
// clang-format on

constexpr uint32_t kBit[32] = {1u << 0,  1u << 1,  1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,
                               1u << 7,  1u << 8,  1u << 9,  1u << 10, 1u << 11, 1u << 12, 1u << 13,
                               1u << 14, 1u << 15, 1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20,
                               1u << 21, 1u << 22, 1u << 23, 1u << 24, 1u << 25, 1u << 26, 1u << 27,
                               1u << 28, 1u << 29, 1u << 30, 1u << 31};

enum Combine : uint16_t { kPlain, kAnd, kOr, kXor };
constexpr uint16_t kCombineMask = 3;
constexpr uint16_t kNarrowResult = 4;  // set: 16 bits

inline uint32_t Combined(uint16_t how, uint32_t value, uint32_t other) {
  switch (how) {
    case kAnd:
      return value & other;
    case kOr:
      return value | other;
    case kXor:
      return value ^ other;
    default:
      return value;
  }
}

// Slots: p, q (or none), a, b, c (or none). All lanes are compared; the mask selects after.
template <typename F, typename T>
[[gnu::always_inline]] inline uint32_t Compare(const Warp& w, uint32_t slot_a, uint32_t slot_b) {
  const T* a = w.Reg<T>(slot_a);
  const T* b = w.Reg<T>(slot_b);
  uint32_t result = 0;
  for (int i = 0; i < kLanes; ++i) result |= F()(Value(a[i]), Value(b[i])) ? kBit[i] : 0;
  return result;
}

template <typename F, typename T>
[[gnu::always_inline]] inline Flow SetpBody(Warp& w, const Op& op, uint32_t mask) {
  uint32_t result = Compare<F, T>(w, op.a[2], op.a[3]);
  if (op.flags == kPlain) {
    w.SetPredicate(op.a[0], mask, result);
    w.SetPredicate(op.a[1], mask, ~result);
  } else {
    uint32_t c = w.Predicate(op.a[4]);
    w.SetPredicate(op.a[0], mask, Combined(op.flags, result, c));
    w.SetPredicate(op.a[1], mask, Combined(op.flags, ~result, c));
  }
  return Flow::kNext;
}
template <typename F, typename T>
Flow SetpBase(Warp& w, const Op& op, uint32_t mask) {
  return SetpBody<F, T>(w, op, mask);
}
template <typename F, typename T>
TL_WIDE_TARGET Flow SetpWide(Warp& w, const Op& op, uint32_t mask) {
  return SetpBody<F, T>(w, op, mask);
}
template <typename F, typename T>
Handler SetpOf() {
  return HasWideTarget() ? SetpWide<F, T> : SetpBase<F, T>;
}

// f16x2 and bf16x2: one comparison for each half.
struct HalfResults {
  uint32_t low = 0, high = 0;
};
template <typename F, typename H>
HalfResults CompareHalves(const Warp& w, const Op& op, uint32_t mask) {
  const uint32_t* a = w.Reg<uint32_t>(op.a[2]);
  const uint32_t* b = w.Reg<uint32_t>(op.a[3]);
  auto holds = [](uint32_t x, uint32_t y) {
    return F()(Value(H{static_cast<uint16_t>(x)}), Value(H{static_cast<uint16_t>(y)}));
  };
  HalfResults result;
  ForEachLane(mask, [&](int i) {
    result.low |= holds(a[i], b[i]) ? kBit[i] : 0;
    result.high |= holds(a[i] >> 16, b[i] >> 16) ? kBit[i] : 0;
  });
  const uint16_t how = op.flags & kCombineMask;
  const uint32_t c = how == kPlain ? 0 : w.Predicate(op.a[4]);
  return {Combined(how, result.low, c), Combined(how, result.high, c)};
}

template <typename F, typename H>
Flow SetpHalves(Warp& w, const Op& op, uint32_t mask) {
  const HalfResults result = CompareHalves<F, H>(w, op, mask);
  w.SetPredicate(op.a[0], mask, result.low);
  w.SetPredicate(op.a[1], mask, result.high);
  return Flow::kNext;
}

// set.cmp.dtype.stype: `immediate` (all ones or 1.0) or zero; slots d, -, a, b, c.
template <typename F, typename T>
Flow SetValue(Warp& w, const Op& op, uint32_t mask) {
  uint32_t result = Compare<F, T>(w, op.a[2], op.a[3]);
  const uint16_t how = op.flags & kCombineMask;
  if (how != kPlain) result = Combined(how, result, w.Predicate(op.a[4]));
  auto write = [&](auto* d) {
    ForEachLane(mask, [&](int i) { d[i] = (result >> i) & 1 ? op.immediate : 0; });
  };
  if (op.flags & kNarrowResult) {
    write(w.Reg<uint16_t>(op.a[0]));
  } else {
    write(w.Reg<uint32_t>(op.a[0]));
  }
  return Flow::kNext;
}

template <typename F, typename H>
Flow SetHalves(Warp& w, const Op& op, uint32_t mask) {
  const HalfResults result = CompareHalves<F, H>(w, op, mask);
  const uint32_t yes = static_cast<uint32_t>(op.immediate);
  uint32_t* d = w.Reg<uint32_t>(op.a[0]);
  ForEachLane(mask, [&](int i) {
    d[i] = ((result.low >> i) & 1 ? yes : 0) | ((result.high >> i) & 1 ? yes << 16 : 0);
  });
  return Flow::kNext;
}

enum class Form : uint8_t { kSetp, kSet };

template <typename F, typename T>
Handler HandlerOf(Form form) {
  return form == Form::kSetp ? SetpOf<F, T>() : SetValue<F, T>;
}

template <typename F, typename H>
Handler HalvesHandlerOf(Form form) {
  return form == Form::kSetp ? SetpHalves<F, H> : SetHalves<F, H>;
}

template <typename F>
Handler IntegerHandler(Type type, Form form) {
  switch (type) {
    case Type::kB16:
    case Type::kU16:
      return HandlerOf<F, uint16_t>(form);
    case Type::kS16:
      return HandlerOf<F, int16_t>(form);
    case Type::kB32:
    case Type::kU32:
      return HandlerOf<F, uint32_t>(form);
    case Type::kS32:
      return HandlerOf<F, int32_t>(form);
    case Type::kB64:
    case Type::kU64:
      return HandlerOf<F, uint64_t>(form);
    case Type::kS64:
      return HandlerOf<F, int64_t>(form);
    default:
      return nullptr;
  }
}

template <typename F>
Handler FloatHandler(Type type, bool flush, Form form) {
  switch (type) {
    case Type::kF32:
      return flush ? HandlerOf<F, Flushed>(form) : HandlerOf<F, float>(form);
    case Type::kF64:
      return HandlerOf<F, double>(form);
    case Type::kF16:
      return flush ? HandlerOf<F, FlushedHalf>(form) : HandlerOf<F, Half>(form);
    case Type::kBF16:
      return HandlerOf<F, BHalf>(form);
    case Type::kF16x2:
      return flush ? HalvesHandlerOf<F, FlushedHalf>(form) : HalvesHandlerOf<F, Half>(form);
    case Type::kBF16x2:
      return HalvesHandlerOf<F, BHalf>(form);
    default:
      return nullptr;
  }
}

template <typename F>
Handler Any(Type type, bool flush, Form form) {
  return IsFloat(type) ? FloatHandler<F>(type, flush, form) : IntegerHandler<F>(type, form);
}

Handler Choose(const std::string& name, Type type, bool flush, Form form) {
  if (name == "eq") return Any<Eq>(type, flush, form);
  if (name == "ne") return Any<Ne>(type, flush, form);
  if (name == "lt") return Any<Lt>(type, flush, form);
  if (name == "le") return Any<Le>(type, flush, form);
  if (name == "gt") return Any<Gt>(type, flush, form);
  if (name == "ge") return Any<Ge>(type, flush, form);
  if (!IsFloat(type)) {  // unsigned spellings
    if (name == "lo") return IntegerHandler<Lt>(type, form);
    if (name == "ls") return IntegerHandler<Le>(type, form);
    if (name == "hi") return IntegerHandler<Gt>(type, form);
    if (name == "hs") return IntegerHandler<Ge>(type, form);
    return nullptr;
  }
  if (name == "equ") return FloatHandler<Equ>(type, flush, form);
  if (name == "neu") return FloatHandler<Neu>(type, flush, form);
  if (name == "ltu") return FloatHandler<Ltu>(type, flush, form);
  if (name == "leu") return FloatHandler<Leu>(type, flush, form);
  if (name == "gtu") return FloatHandler<Gtu>(type, flush, form);
  if (name == "geu") return FloatHandler<Geu>(type, flush, form);
  if (name == "num") return FloatHandler<Num>(type, flush, form);
  if (name == "nan") return FloatHandler<Nan>(type, flush, form);
  return nullptr;
}

std::string TakeComparison(Decoder& d) {
  return d.mods.TakeOneOf({"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu",
                           "ltu", "leu", "gtu", "geu", "num", "nan"});
}

uint16_t TakeCombine(Decoder& d) {
  std::string name = d.mods.TakeOneOf({"and", "or", "xor"});
  return name == "and" ? kAnd : name == "or" ? kOr : name == "xor" ? kXor : kPlain;
}

void DecodeSetp(Decoder& d) {
  std::string name = TakeComparison(d);
  d.op.flags = TakeCombine(d);
  bool flush = d.mods.Take("ftz");
  Type type = d.mods.TakeType();
  d.op.handler = Choose(name, type, flush, Form::kSetp);
  if (!d.op.handler) d.Unsupported();
  const ptx::Operand& target = d.operand(0);
  bool pair = target.kind == ptx::Operand::Kind::kPair;
  if (pair && (type == Type::kF16 || type == Type::kBF16)) {
    d.Illegal("'" + d.inst.Spelling() + "' has one predicate result");
  }
  d.Push(d.PredicateDestination(pair ? target.elements[0] : target));
  d.Push(pair ? d.PredicateDestination(target.elements[1]) : kNoSlot);
  d.PushSource(1, type);
  d.PushSource(2, type);
  if (d.op.flags != kPlain) d.Push(d.Predicate(d.operand(3)));
}

// Returns what `set` writes where the comparison holds, in each half of a packed result.
int64_t TrueValue(Type type) {
  switch (type) {
    case Type::kF16:
    case Type::kF16x2:
      return 0x3C00;
    case Type::kBF16:
    case Type::kBF16x2:
      return 0x3F80;
    case Type::kF32:
      return 0x3F800000;
    default:
      return 0xFFFFFFFF;
  }
}

bool CanSet(Type target, Type source) {
  const bool packed_source = source == Type::kF16x2 || source == Type::kBF16x2;
  switch (target) {
    case Type::kU32:
    case Type::kS32:
      return true;
    case Type::kU16:
    case Type::kS16:
      return source == Type::kF16 || source == Type::kBF16;
    case Type::kF16:
    case Type::kBF16:
      return !packed_source;
    case Type::kF32:
      return !packed_source;
    case Type::kF16x2:
    case Type::kBF16x2:
      return target == source;
    default:
      return false;
  }
}

void DecodeSet(Decoder& d) {
  std::string name = TakeComparison(d);
  d.op.flags = TakeCombine(d);
  const bool combined = d.op.flags != kPlain;
  bool flush = d.mods.Take("ftz");
  Type target = d.mods.TakeType(), type = d.mods.TakeType();
  if (!CanSet(target, type)) d.Unsupported();
  const bool packed = type == Type::kF16x2 || type == Type::kBF16x2;
  d.op.immediate = packed ? TrueValue(target) & 0xFFFF : TrueValue(target);
  if (TypeBits(target) == 16) d.op.flags |= kNarrowResult;
  d.op.handler = Choose(name, type, flush, Form::kSet);
  if (!d.op.handler) d.Unsupported();
  d.PushDestination(0, target);
  d.Push(kNoSlot);
  d.PushSource(1, type);
  d.PushSource(2, type);
  if (combined) d.Push(d.Predicate(d.operand(3)));
}

}  // namespace

void RegisterCompare() {
  FamilyRegistry::Add("setp", DecodeSetp);
  FamilyRegistry::Add("set", DecodeSet);
}

}  // namespace tilelang::emulator
