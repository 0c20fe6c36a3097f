// cvt.rs: conversions of f32 that round up or down as random bits decide.
#include <array>
#include <cmath>
#include <cstring>

#include "emulator/instructions/convert.h"
#include "emulator/instructions/elementwise.h"

namespace tilelang::emulator {
namespace {

// Word bits that make up an element's random number, from its most significant bit on: runs of
// consecutive positions, upwards or downwards.
struct Run {
  int first, last;
};
using Runs = std::array<Run, 2>;
constexpr Run kNone{-1, -1};

struct Format {
  const char* name;
  const FloatFormat* format;
  int bits;         // from one element to the next
  int random_bits;  // of each element
  int count;
  std::array<Runs, 4> runs;  // of the sources in their order
};

// The bits of the random operand for each element. For two elements they follow the PTX ISA, cvt.
// For four elements the ISA leaves their order open, and a probe of a B200 has shown it: two
// elements share their bits, one of them reversed.
constexpr Runs kHigh{{{31, 16}, kNone}}, kLow{{{15, 0}, kNone}};
constexpr Runs kHighUp{{{16, 31}, kNone}}, kLowUp{{{0, 15}, kNone}};
constexpr Format kFormats[] = {
    {"bf16x2", &kBf16, 16, 16, 2, {kHigh, kLow}},
    {"f16x2", &kF16, 16, 13, 2, {Runs{{{28, 16}, kNone}}, Runs{{{12, 0}, kNone}}}},
    {"e4m3x4", &kE4m3, 8, 16, 4, {kHighUp, kHigh, kLowUp, kLow}},
    {"e5m2x4", &kE5m2, 8, 16, 4, {kHighUp, kHigh, kLowUp, kLow}},
    // Types of six bits take random bits as types of eight bits do, because the PTX ISA describes
    // both alike.
    {"e2m3x4", &kE2m3, 8, 16, 4, {kHighUp, kHigh, kLowUp, kLow}},
    {"e3m2x4", &kE3m2, 8, 16, 4, {kHighUp, kHigh, kLowUp, kLow}},
    {"e2m1x4",
     &kE2m1,
     4,
     16,
     4,
     {Runs{{{8, 15}, {24, 31}}}, Runs{{{31, 24}, {15, 8}}}, Runs{{{0, 7}, {16, 23}}},
      Runs{{{23, 16}, {7, 0}}}}},
};

struct StochasticOp {
  const Format* format = nullptr;
  bool relu = false, satfinite = false;
};

uint32_t RandomNumber(const Runs& runs, uint32_t word) {
  uint32_t number = 0;
  for (const Run& run : runs) {
    if (run.first < 0) continue;
    const int step = run.first < run.last ? 1 : -1;
    for (int i = run.first; i != run.last + step; i += step) number = number << 1 | (word >> i & 1);
  }
  return number;
}

// The magnitude grows to the next number if its fraction of a last place and the random number,
// as a fraction too, carry.
uint32_t Round(const StochasticOp& s, float value, uint32_t random) {
  const FloatFormat& f = *s.format->format;
  double exact = value;
  if (s.relu && value <= 0) exact = 0;
  if (std::isfinite(value) && exact != 0) {
    const int exponent = std::max(std::ilogb(exact), f.min_exponent()) - f.mantissa_bits;
    const double places = std::ldexp(std::fabs(exact), -exponent);
    double whole = std::floor(places);
    if (places - whole >= 1 - std::ldexp(random, -s.format->random_bits)) ++whole;
    exact = std::copysign(std::ldexp(whole, exponent), exact);
  }
  return EncodeFloat(f, exact, Rounding::kNearestEven, s.satfinite);
}

// Slots: d, random bits, sources; the first source becomes the uppermost element.
Flow ConvertStochastic(Warp& w, const Op& op, uint32_t mask) {
  const StochasticOp& s = op.Extra<StochasticOp>();
  const Format& f = *s.format;
  const uint32_t* words = w.Reg<uint32_t>(op.slots[1]);
  const uint32_t bytes = static_cast<uint32_t>(f.bits * f.count / 8);
  uint8_t* target = w.Reg<uint8_t>(op.slots[0]);
  ForEachLane(mask, [&](int i) {
    uint32_t result = 0;
    for (int k = 0; k < f.count; ++k) {
      const uint32_t random = RandomNumber(f.runs[static_cast<size_t>(k)], words[i]);
      result = result << f.bits | Round(s, w.Reg<float>(op.slots[2 + k])[i], random);
    }
    std::memcpy(target + size_t{bytes} * i, &result, bytes);
  });
  return Flow::kNext;
}

}  // namespace

void DecodeConvertStochastic(Decoder& d) {
  d.mods.Take("rs");
  StochasticOp s;
  s.relu = d.mods.Take("relu");
  s.satfinite = d.mods.Take("satfinite");
  for (const Format& format : kFormats) {
    if (!s.format && d.mods.Take(format.name)) s.format = &format;
  }
  if (!s.format) d.Unsupported("stochastic rounding to this type, '" + d.inst.Spelling() + "',");
  if (d.mods.TakeType() != Type::kF32) d.Illegal("cvt.rs converts from .f32");
  const bool four = s.format->count == 4;
  if (four && !s.satfinite) d.Illegal("'" + d.inst.Spelling() + "' needs .satfinite");
  d.Push(d.Destination(d.operand(0), s.format->bits == 4 ? Type::kB16 : Type::kB32));
  d.Push(d.Source(d.operand(four ? 2 : 3), Type::kB32));
  const auto elements = d.Elements(d.operand(1));
  if (four != (elements.size() == 4)) d.Illegal("wrong number of sources of cvt.rs");
  for (const ptx::Operand* element : elements) d.Push(d.Source(*element, Type::kF32));
  if (!four) d.PushSource(2, Type::kF32);
  d.MakeExtra<StochasticOp>(s);
  d.op.handler = ConvertStochastic;
}

}  // namespace tilelang::emulator
