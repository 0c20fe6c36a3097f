// cvt between packed pairs of floats, and cvt.pack of integers.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "emulator/instructions/convert.h"
#include "emulator/instructions/elementwise.h"
#include "emulator/instructions/float_ops.h"

namespace tilelang::emulator {
namespace {

// s2f6 is a signed byte in units of 1/64.
constexpr double kS2f6Unit = 1.0 / 64;

enum class Code : uint8_t { kFloat, kUe8m0, kS2f6 };

// Element of a packed type: its format and the bits from one element to the next.
struct Element {
  const FloatFormat* format = nullptr;  // of kFloat
  int bits = 0;
  Code code = Code::kFloat;
};

Element ElementOf(Type type) {
  switch (type) {
    case Type::kF16x2:
      return {&kF16, 16};
    case Type::kBF16x2:
      return {&kBf16, 16};
    case Type::kE4M3x2:
      return {&kE4m3, 8};
    case Type::kE5M2x2:
      return {&kE5m2, 8};
    case Type::kE2M3x2:
      return {&kE2m3, 8};
    case Type::kE3M2x2:
      return {&kE3m2, 8};
    case Type::kE2M1x2:
      return {&kE2m1, 4};
    case Type::kUE8M0x2:
      return {nullptr, 8, Code::kUe8m0};
    case Type::kS2F6x2:
      return {nullptr, 8, Code::kS2f6};
    default:
      return {};
  }
}

struct PackedConversion {
  Conversion c;
  Element to, from;
  bool two_sources = false;  // from two f32 registers
  bool scaled = false;       // .scaled::n2::ue8m0: each element has a scale factor
};

// Rounds to the nearest s2f6, ties to even; NaN becomes the largest number.
uint32_t EncodeS2f6(double value) {
  const double units = std::isnan(value) ? 127 : std::nearbyint(value / kS2f6Unit);
  return static_cast<uint8_t>(static_cast<int8_t>(std::clamp(units, -128.0, 127.0)));
}

uint32_t Encode(const PackedConversion& p, double value) {
  if (p.c.relu && value <= 0) value = 0;  // also -0
  if (p.to.code == Code::kUe8m0) return EncodeUe8m0(value, p.c.rounding, p.c.satfinite);
  if (p.to.code == Code::kS2f6) return EncodeS2f6(value);
  return EncodeFloat(*p.to.format, value, p.c.rounding, p.c.satfinite);
}

double Decode(const PackedConversion& p, uint32_t code) {
  if (p.from.code == Code::kUe8m0) return DecodeUe8m0(code);
  if (p.from.code == Code::kS2f6) return static_cast<int8_t>(code) * kS2f6Unit;
  return DecodeFloat(*p.from.format, code);
}

// Converts one element. The register of scale factors has that of the lower element low; wider
// elements are multiplied by it, and values to become s2f6 divided.
uint32_t ConvertElement(const PackedConversion& p, double value, uint32_t scales, int element) {
  if (p.scaled) {
    const double scale = DecodeUe8m0(scales >> (8 * element) & 0xFF);
    value = p.to.code == Code::kS2f6 ? value / scale : value * scale;
  }
  return Encode(p, value) << (element * p.to.bits);
}

// The first source becomes the upper element.
Flow FromTwo(Warp& w, const Op& op, uint32_t mask) {
  const PackedConversion& p = op.Extra<PackedConversion>();
  const float* high = w.Reg<float>(op.a[1]);
  const float* low = w.Reg<float>(op.a[2]);
  const uint16_t* scales = p.scaled ? w.Reg<uint16_t>(op.a[3]) : nullptr;
  uint8_t* target = w.Reg<uint8_t>(op.a[0]);
  ForEachLane(mask, [&](int i) {
    const uint32_t scale = scales ? scales[i] : 0;
    uint32_t bits = ConvertElement(p, low[i], scale, 0) | ConvertElement(p, high[i], scale, 1);
    std::memcpy(target + size_t{1} * p.c.to_register * i, &bits, p.c.to_register);
  });
  return Flow::kNext;
}

Flow FromPair(Warp& w, const Op& op, uint32_t mask) {
  const PackedConversion& p = op.Extra<PackedConversion>();
  const uint8_t* source = w.Reg<uint8_t>(op.a[1]);
  const uint16_t* scales = p.scaled ? w.Reg<uint16_t>(op.a[2]) : nullptr;
  uint8_t* target = w.Reg<uint8_t>(op.a[0]);
  const uint32_t element = (1u << p.from.bits) - 1;
  ForEachLane(mask, [&](int i) {
    uint32_t pair = 0, bits = 0;
    std::memcpy(&pair, source + size_t{1} * p.c.from_register * i, p.c.from_register);
    for (int k = 0; k < 2; ++k) {
      const double value = Decode(p, pair >> (k * p.from.bits) & element);
      bits |= ConvertElement(p, value, scales ? scales[i] : 0, k);
    }
    std::memcpy(target + size_t{1} * p.c.to_register * i, &bits, p.c.to_register);
  });
  return Flow::kNext;
}

// clang-format off
struct PackBfloat {
  uint32_t operator()(float high, float low) const {
    return uint32_t{F32ToBf16(high)} << 16 | F32ToBf16(low);
  }
};
struct PackHalf {
  uint32_t operator()(float high, float low) const {
    return uint32_t{F32ToF16(high)} << 16 | F32ToF16(low);
  }
};
// clang-format on

// --- cvt.pack
// -------------------------------------------------------------------------------------

struct PackOp {
  int bits = 0;
  bool is_signed = false, carry_in = false;
};

Flow PackIntegers(Warp& w, const Op& op, uint32_t mask) {
  const PackOp& p = op.Extra<PackOp>();
  const int32_t* a = w.Reg<int32_t>(op.a[1]);
  const int32_t* b = w.Reg<int32_t>(op.a[2]);
  const uint32_t* c = p.carry_in ? w.Reg<uint32_t>(op.a[3]) : nullptr;
  uint32_t* d = w.Reg<uint32_t>(op.a[0]);
  int64_t top = (int64_t{1} << (p.is_signed ? p.bits - 1 : p.bits)) - 1;
  int64_t low = p.is_signed ? -top - 1 : 0;
  uint32_t element = p.bits == 32 ? ~0u : (1u << p.bits) - 1;
  auto clamp = [&](int64_t value) {
    return static_cast<uint32_t>(value < low ? low : value > top ? top : value) & element;
  };
  ForEachLane(mask, [&](int i) {
    uint32_t pair = clamp(b[i]) | clamp(a[i]) << p.bits;
    d[i] = c ? pair | c[i] << (2 * p.bits) : pair;
  });
  return Flow::kNext;
}

}  // namespace

void DecodeConvertPacked(Decoder& d, const Conversion& conversion) {
  PackedConversion p;
  p.c = conversion;
  p.to = ElementOf(conversion.to);
  p.from = ElementOf(conversion.from);
  p.two_sources = conversion.from == Type::kF32;
  bool known_source = p.two_sources || p.from.bits != 0;
  if (p.to.bits == 0 || !known_source || conversion.to_integer || conversion.flush ||
      conversion.saturate) {
    d.Unsupported();
  }
  p.c.to_register = d.RegisterBits(d.operand(0)) / 8;
  p.c.from_register = d.RegisterBits(d.operand(1)) / 8;
  d.Push(d.Destination(d.operand(0), conversion.to, true));
  d.Push(d.Source(d.operand(1), conversion.from, true));
  if (p.two_sources) d.Push(d.Source(d.operand(2), Type::kF32));
  p.scaled = d.mods.Take("scaled::n2::ue8m0");
  if (p.scaled) d.Push(d.Source(d.operand(p.two_sources ? 3 : 2), Type::kB16));
  bool plain =
      p.two_sources && p.c.rounding == Rounding::kNearestEven && !p.c.relu && !p.c.satfinite;
  if (plain && conversion.to == Type::kBF16x2) {
    d.op.handler = Binary<PackBfloat, uint32_t, float, float>();
  } else if (plain && conversion.to == Type::kF16x2) {
    d.op.handler = Binary<PackHalf, uint32_t, float, float>();
  } else {
    d.op.handler = p.two_sources ? FromTwo : FromPair;
  }
  if (!p.c.from_register) p.c.from_register = TypeBits(conversion.from) / 8;
  d.MakeExtra<PackedConversion>(p);
}

void DecodeConvertPack(Decoder& d) {
  d.mods.Take("pack");
  if (!d.mods.Take("sat")) d.Illegal("cvt.pack needs .sat");
  PackOp p;
  // .u4, .s4, .u2 and .s2 are no types of registers
  std::string narrow = d.mods.TakeOneOf({"u4", "s4", "u2", "s2"});
  Type to = narrow.empty() ? d.mods.TakeType() : Type::kNone;
  while (d.mods.TakeType() != Type::kNone) {  // .s32 of a and b, .b32 of c
  }
  p.bits = narrow.empty() ? TypeBits(to) : narrow[1] - '0';
  p.is_signed = narrow.empty() ? IsSigned(to) : narrow[0] == 's';
  p.carry_in = d.Has(3);
  PushUniform(d, Type::kB32, p.carry_in ? 3 : 2);
  d.MakeExtra<PackOp>(p);
  d.op.handler = PackIntegers;
}

}  // namespace tilelang::emulator
