// cvt between single values: integers and floats of every width.
#include "emulator/instructions/convert.h"

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstring>

#include "emulator/core/families.h"
#include "emulator/instructions/elementwise.h"
#include "emulator/instructions/float_ops.h"

namespace tilelang::emulator {
namespace {

// --- one value, any types
// -------------------------------------------------------------------------

uint64_t ReadBits(const uint8_t* file, uint32_t slot, int register_bytes, int bytes, int lane) {
  uint64_t value = 0;
  std::memcpy(&value, file + slot + size_t{1} * register_bytes * lane, bytes);
  return value;
}

double ToDouble(Type type, uint64_t bits) {
  switch (type) {
    case Type::kF16:
      return F16ToF32(static_cast<uint16_t>(bits));
    case Type::kBF16:
      return Bf16ToF32(static_cast<uint16_t>(bits));
    case Type::kF64:
      return std::bit_cast<double>(bits);
    default:
      return std::bit_cast<float>(static_cast<uint32_t>(bits));
  }
}

int64_t SignExtend(uint64_t bits, int width) {
  int unused = 64 - width;
  return static_cast<int64_t>(bits << unused) >> unused;
}

// A 64-bit magnitude as a double rounded to odd: a later rounding to fewer bits is then correct.
double MagnitudeToOdd(uint64_t magnitude) {
  int extra = 64 - std::countl_zero(magnitude) - 53;
  if (extra <= 0) return static_cast<double>(magnitude);
  bool sticky = (magnitude & ((uint64_t{1} << extra) - 1)) != 0;
  uint64_t kept = magnitude >> extra | (sticky ? 1 : 0);
  return std::ldexp(static_cast<double>(kept), extra);
}

uint64_t IntegerToF64(bool negative, uint64_t magnitude, Rounding rounding) {
  std::fesetround(HostRounding(rounding));
  volatile double value = 0;
  if (negative) {
    volatile int64_t source = static_cast<int64_t>(-magnitude);
    value = static_cast<double>(source);
  } else {
    // The conversion of large unsigned values is a sequence that rounds twice: halves are exact.
    volatile uint64_t high = magnitude >> 32, low = magnitude & 0xFFFFFFFF;
    volatile double upper = static_cast<double>(high) * 4294967296.0;
    value = upper + static_cast<double>(low);
  }
  std::fesetround(FE_TONEAREST);
  return std::bit_cast<uint64_t>(static_cast<double>(value));
}

const FloatFormat& FormatOf(Type type) {
  return type == Type::kF16 ? kF16 : type == Type::kBF16 ? kBf16 : kF32;
}

uint64_t IntegerToFloat(const Conversion& c, uint64_t bits) {
  bool negative = false;
  uint64_t magnitude = bits;
  if (IsSigned(c.from)) {
    int64_t value = SignExtend(bits, TypeBits(c.from));
    negative = value < 0;
    magnitude = negative ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  }
  if (c.to == Type::kF64) return IntegerToF64(negative, magnitude, c.rounding);
  double value = MagnitudeToOdd(magnitude);
  return EncodeFloat(FormatOf(c.to), negative ? -value : value, c.rounding, c.satfinite);
}

double RoundToInteger(double value, Rounding rounding) {
  switch (rounding) {
    case Rounding::kTowardZero:
      return std::trunc(value);
    case Rounding::kDown:
      return std::floor(value);
    case Rounding::kUp:
      return std::ceil(value);
    default:
      return std::nearbyint(value);
  }
}

uint64_t FloatToInteger(const Conversion& c, double value) {
  int width = TypeBits(c.to);
  bool is_signed = IsSigned(c.to);
  if (value != value) {
    // PTX ISA, cvt: zero unless a 64-bit type takes part.
    return c.from != Type::kF64 && width != 64 ? 0 : uint64_t{1} << (width - 1);
  }
  value = RoundToInteger(value, c.rounding);
  double high = std::ldexp(1.0, is_signed ? width - 1 : width);
  double low = is_signed ? -high : 0.0;
  uint64_t all = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
  if (value >= high) return is_signed ? all >> 1 : all;
  if (value <= low) return is_signed ? uint64_t{1} << (width - 1) : 0;
  return value < 0 ? static_cast<uint64_t>(static_cast<int64_t>(value))
                   : static_cast<uint64_t>(value);
}

uint64_t IntegerToInteger(const Conversion& c, uint64_t bits) {
  int to = TypeBits(c.to);
  bool from_signed = IsSigned(c.from);
  uint64_t value = from_signed ? static_cast<uint64_t>(SignExtend(bits, TypeBits(c.from))) : bits;
  if (!c.saturate) return value;
  uint64_t top = IsSigned(c.to) ? (uint64_t{1} << (to - 1)) - 1
                                : (to == 64 ? ~uint64_t{0} : (uint64_t{1} << to) - 1);
  if (from_signed && static_cast<int64_t>(value) < 0) {
    if (!IsSigned(c.to)) return 0;
    int64_t low = -static_cast<int64_t>(top) - 1;
    return static_cast<int64_t>(value) < low ? static_cast<uint64_t>(low) : value;
  }
  return value > top ? top : value;
}

// NaN from f64 keeps its sign and the upper bits of its payload, and becomes quiet.
uint64_t NarrowedNan(const FloatFormat& f, uint64_t bits) {
  uint64_t sign = bits >> 63 ? f.sign_bit() : 0;
  uint64_t payload = (bits & ((uint64_t{1} << 52) - 1)) >> (52 - f.mantissa_bits);
  return sign | f.infinity() | uint64_t{1} << (f.mantissa_bits - 1) | payload;
}

uint64_t FloatToFloat(const Conversion& c, double value) {
  if (c.to_integer) value = RoundToInteger(value, c.rounding);
  if (c.saturate) value = value > 0 ? (value > 1 ? 1.0 : value) : 0.0;
  if (c.relu && value <= 0) value = 0.0;  // also -0
  Rounding rounding = c.to_integer ? Rounding::kNearestEven : c.rounding;
  switch (c.to) {
    case Type::kF64:
      return std::bit_cast<uint64_t>(value);
    case Type::kTF32: {
      uint32_t code = EncodeFloat(kTf32, value, rounding, c.satfinite);
      return uint64_t{code} << 13;
    }
    case Type::kF32: {
      uint32_t code = EncodeFloat(kF32, value, rounding, c.satfinite);
      if (c.flush) code = std::bit_cast<uint32_t>(FlushSubnormal(std::bit_cast<float>(code)));
      return code;
    }
    default:
      return EncodeFloat(FormatOf(c.to), value, rounding, c.satfinite);
  }
}

uint64_t ConvertOne(const Conversion& c, uint64_t bits) {
  if (!IsFloat(c.from)) {
    return IsFloat(c.to) ? IntegerToFloat(c, bits) : IntegerToInteger(c, bits);
  }
  double value = ToDouble(c.from, bits);
  if (c.from == Type::kF64 && IsFloat(c.to) && value != value && !c.saturate) {
    return c.to == Type::kF64 ? bits | uint64_t{1} << 51 : NarrowedNan(FormatOf(c.to), bits);
  }
  if (c.to == Type::kTF32 && c.rounding == Rounding::kNearestAway && !std::isfinite(value)) {
    return bits & 0xFFFFE000;  // hardware cuts the low bits off, also of NaN
  }
  if (c.flush && c.from == Type::kF32) value = FlushSubnormal(static_cast<float>(value));
  if (IsFloat(c.to)) return FloatToFloat(c, value);
  uint64_t result = FloatToInteger(c, value);
  return result;
}

Flow ConvertLanes(Warp& w, const Op& op, uint32_t mask) {
  const Conversion& c = op.Extra<Conversion>();
  const uint8_t* file = w.Reg<uint8_t>(0);
  int from_bytes = TypeBits(c.from) / 8, to_bits = TypeBits(c.to);
  uint8_t* target = w.Reg<uint8_t>(op.a[0]);
  bool extend = IsSigned(c.to) && !IsFloat(c.to);
  ForEachLane(mask, [&](int i) {
    uint64_t bits = ConvertOne(c, ReadBits(file, op.a[1], c.from_register, from_bytes, i));
    if (c.to_register * 8 > to_bits) {
      bits = extend ? static_cast<uint64_t>(SignExtend(bits, to_bits))
                    : bits & ((uint64_t{1} << to_bits) - 1);
    }
    std::memcpy(target + size_t{1} * c.to_register * i, &bits, c.to_register);
  });
  return Flow::kNext;
}

// --- fast paths
// -----------------------------------------------------------------------------------

template <typename D>
struct Cast {
  template <typename S>
  D operator()(S a) const {
    return static_cast<D>(a);
  }
};

template <typename D>
Handler CastFrom(Type from) {
  switch (from) {
    case Type::kU16:
      return Unary<Cast<D>, D, uint16_t>();
    case Type::kS16:
      return Unary<Cast<D>, D, int16_t>();
    case Type::kU32:
      return Unary<Cast<D>, D, uint32_t>();
    case Type::kS32:
      return Unary<Cast<D>, D, int32_t>();
    case Type::kU64:
      return Unary<Cast<D>, D, uint64_t>();
    case Type::kS64:
      return Unary<Cast<D>, D, int64_t>();
    default:
      return nullptr;
  }
}

Handler FastInteger(const Conversion& c) {
  if (c.saturate) return nullptr;
  switch (TypeBits(c.to)) {
    case 16:
      return CastFrom<uint16_t>(c.from);
    case 32:
      return CastFrom<uint32_t>(c.from);
    case 64:
      return CastFrom<uint64_t>(c.from);
    default:
      return nullptr;
  }
}

// clang-format off
struct HalfToF32 { float operator()(uint16_t a) const { return CanonicalNan(F16ToF32(a)); } };
// NaN passes as it is: the conversion appends zeros.
struct BfloatToF32 { float operator()(uint16_t a) const { return Bf16ToF32(a); } };
struct F32ToBfloat { uint16_t operator()(float a) const { return F32ToBf16(a); } };
struct F32ToHalf { uint16_t operator()(float a) const { return F32ToF16(a); } };
struct F32ToF64 { double operator()(float a) const { return a; } };
// clang-format on

Handler FastFloat(const Conversion& c) {
  bool nearest = c.rounding == Rounding::kNearestEven;
  if (c.saturate || c.flush || c.relu || c.satfinite || c.to_integer || !nearest) return nullptr;
  if (c.from == Type::kF16 && c.to == Type::kF32) return Unary<HalfToF32, float, uint16_t>();
  if (c.from == Type::kBF16 && c.to == Type::kF32) return Unary<BfloatToF32, float, uint16_t>();
  if (c.from == Type::kF32 && c.to == Type::kBF16) return Unary<F32ToBfloat, uint16_t, float>();
  if (c.from == Type::kF32 && c.to == Type::kF16) return Unary<F32ToHalf, uint16_t, float>();
  if (c.from == Type::kS32 && c.to == Type::kF32) return Unary<Cast<float>, float, int32_t>();
  if (c.from == Type::kU32 && c.to == Type::kF32) return Unary<Cast<float>, float, uint32_t>();
  if (c.from == Type::kF32 && c.to == Type::kF64) return Unary<F32ToF64, double, float>();
  return nullptr;
}

// --- decoding
// -------------------------------------------------------------------------------------

bool IsScalar(Type type) {
  switch (type) {
    case Type::kU8:
    case Type::kU16:
    case Type::kU32:
    case Type::kU64:
    case Type::kS8:
    case Type::kS16:
    case Type::kS32:
    case Type::kS64:
    case Type::kF16:
    case Type::kBF16:
    case Type::kTF32:
    case Type::kF32:
    case Type::kF64:
      return true;
    default:
      return false;
  }
}

void TakeRounding(Decoder& d, Conversion* c) {
  std::string name = d.mods.TakeOneOf({"rni", "rzi", "rmi", "rpi"});
  c->to_integer = !name.empty();
  if (name.empty()) name = d.mods.TakeOneOf({"rna", "rn", "rz", "rm", "rp"});
  c->has_rounding = !name.empty();
  if (name == "rna") {
    c->rounding = Rounding::kNearestAway;
  } else if (!name.empty()) {
    c->rounding = name[1] == 'z'   ? Rounding::kTowardZero
                  : name[1] == 'm' ? Rounding::kDown
                  : name[1] == 'p' ? Rounding::kUp
                                   : Rounding::kNearestEven;
  }
}

void DecodeConvert(Decoder& d) {
  if (d.mods.Has("pack")) return DecodeConvertPack(d);
  if (d.mods.Has("rs")) return DecodeConvertStochastic(d);
  Conversion c;
  TakeRounding(d, &c);
  c.flush = d.mods.Take("ftz");
  c.saturate = d.mods.Take("sat");
  c.satfinite = d.mods.Take("satfinite");
  c.relu = d.mods.Take("relu");
  c.to = d.mods.TakeType();
  c.from = d.mods.TakeType();
  if (!IsScalar(c.to) || !IsScalar(c.from)) return DecodeConvertPacked(d, c);
  if (IsFloat(c.from) && !IsFloat(c.to) && !c.to_integer) {
    d.Illegal("a conversion from float to integer needs .rni, .rzi, .rmi or .rpi");
  }
  c.from_register = d.RegisterBits(d.operand(1)) / 8;
  c.to_register = d.RegisterBits(d.operand(0)) / 8;
  if (!c.from_register) c.from_register = TypeBits(c.from) / 8;
  if (!c.to_register) c.to_register = TypeBits(c.to) / 8;
  d.Push(d.Destination(d.operand(0), c.to, true));
  d.Push(d.Source(d.operand(1), c.from, true));
  d.MakeExtra<Conversion>(c);
  bool exact_width = c.from_register * 8 == TypeBits(c.from) && c.to_register * 8 == TypeBits(c.to);
  if (exact_width) {
    d.op.handler = !IsFloat(c.from) && !IsFloat(c.to) ? FastInteger(c) : FastFloat(c);
  }
  if (!d.op.handler) d.op.handler = ConvertLanes;
}

}  // namespace

void RegisterConvert() { FamilyRegistry::Add("cvt", DecodeConvert); }

}  // namespace tilelang::emulator
