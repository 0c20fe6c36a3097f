// Float conversions against two independent references: the host's own rounding for f32, and a
// search among all values of the format for the narrow ones.
#include "emulator/numerics/float_formats.h"

#include <algorithm>
#include <cfenv>
#include <map>
#include <random>

#include "check.h"

namespace tilelang::emulator {
namespace {

const std::pair<const char*, FloatFormat> kNarrow[] = {
    {"f16", kF16},   {"bf16", kBf16}, {"e5m2", kE5m2}, {"e4m3", kE4m3},
    {"e3m2", kE3m2}, {"e2m3", kE2m3}, {"e2m1", kE2m1}, {"ue4m3", kUe4m3},
};

// Doubles around and within the format's range, with many exact ties among them.
std::vector<double> Samples(const FloatFormat& f, int count) {
  std::mt19937_64 random(f.exponent_bits * 64 + f.mantissa_bits);
  std::uniform_real_distribution<double> exponent(f.min_exponent() - f.mantissa_bits - 2,
                                                  (1 << f.exponent_bits) - f.bias + 1);
  std::vector<double> samples;
  for (int i = 0; i < count; ++i) {
    double value = std::exp2(exponent(random));
    if (i % 2) {  // a short significand: often a tie
      const double unit = std::ldexp(1.0, std::ilogb(value) - f.mantissa_bits - 1);
      value = std::nearbyint(value / unit) * unit;
    }
    samples.push_back(f.is_signed && random() % 2 ? -value : value);
  }
  return samples;
}

// All finite values of the format and their codes, in order.
std::map<double, uint32_t> Values(const FloatFormat& f) {
  std::map<double, uint32_t> values;
  for (uint32_t code = 0; code < 1u << f.width(); ++code) {
    const double value = DecodeFloat(f, code);
    if (std::isfinite(value) && !(value == 0 && std::signbit(value))) values[value] = code;
  }
  return values;
}

double Expected(const std::map<double, uint32_t>& values, double x, Rounding mode) {
  const auto above = values.lower_bound(x);
  if (above->first == x) return x;
  const auto below = std::prev(above);
  const double down = x - below->first;
  const double up = above->first - x;
  const bool away = x > 0;
  switch (mode) {
    case Rounding::kDown:
      return below->first;
    case Rounding::kUp:
      return above->first;
    case Rounding::kTowardZero:
      return away ? below->first : above->first;
    case Rounding::kNearestAway:
      return down == up ? (away ? above->first : below->first)
                        : (down < up ? below->first : above->first);
    case Rounding::kNearestEven:
      break;
  }
  if (down != up) return down < up ? below->first : above->first;
  return below->second % 2 == 0 ? below->first : above->first;
}

TEST(NarrowFormatsRoundToTheNeighbourThatTheModeNames) {
  for (const auto& [name, format] : kNarrow) {
    const auto values = Values(format);
    const double largest = values.rbegin()->first;
    for (const double x : Samples(format, 2000)) {
      if (std::fabs(x) >= largest) continue;
      for (int mode = 0; mode < 5; ++mode) {
        const auto rounding = static_cast<Rounding>(mode);
        const double actual = DecodeFloat(format, EncodeFloat(format, x, rounding, false));
        CHECK_EQ(actual, Expected(values, x, rounding));
      }
    }
  }
}

TEST(EveryCodeSurvivesDecodingAndEncoding) {
  for (const auto& [name, format] : kNarrow) {
    for (uint32_t code = 0; code < 1u << format.width(); ++code) {
      const double value = DecodeFloat(format, code);
      const uint32_t again = EncodeFloat(format, value, Rounding::kNearestEven, false);
      CHECK_EQ(again, std::isnan(value) ? format.canonical_nan() : code);
    }
  }
}

// The largest and the smallest value of each format, from the PTX ISA and the OCP MX specification.
TEST(RangesAreThoseOfTheSpecifications) {
  const struct {
    FloatFormat format;
    double largest, smallest;
  } rows[] = {
      {kF16, 65504, 0x1p-24}, {kBf16, 0x1.FEp127, 0x1p-133}, {kE5m2, 57344, 0x1p-16},
      {kE4m3, 448, 0x1p-9},   {kE3m2, 28, 0x1p-4},           {kE2m3, 7.5, 0x1p-3},
      {kE2m1, 6, 0.5},        {kUe4m3, 448, 0x1p-9},
  };
  for (const auto& row : rows) {
    CHECK_EQ(DecodeFloat(row.format, row.format.max_finite()), row.largest);
    CHECK_EQ(DecodeFloat(row.format, 1), row.smallest);
    CHECK_EQ(EncodeFloat(row.format, 1e300, Rounding::kNearestEven, true), row.format.max_finite());
  }
}

TEST(F32RoundsAsTheHostDoes) {
  const std::pair<Rounding, int> modes[] = {{Rounding::kNearestEven, FE_TONEAREST},
                                            {Rounding::kTowardZero, FE_TOWARDZERO},
                                            {Rounding::kDown, FE_DOWNWARD},
                                            {Rounding::kUp, FE_UPWARD}};
  for (const double x : Samples(kF32, 20000)) {
    for (const auto& [mode, host_mode] : modes) {
      std::fesetround(host_mode);
      const volatile double input = x;
      const volatile float rounded = static_cast<float>(input);
      std::fesetround(FE_TONEAREST);
      CHECK_EQ(EncodeFloat(kF32, x, mode, false), std::bit_cast<uint32_t>(float{rounded}));
    }
  }
}

TEST(FastPathsAgreeWithTheGeneralOnes) {
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const auto half = static_cast<uint16_t>(code);
    const double f16 = DecodeFloat(kF16, code);
    const double bf16 = DecodeFloat(kBf16, code);
    CHECK(std::isnan(f16) ? std::isnan(F16ToF32(half)) : F16ToF32(half) == f16);
    CHECK(std::isnan(bf16) ? std::isnan(Bf16ToF32(half)) : Bf16ToF32(half) == bf16);
  }
  for (const double x : Samples(kBf16, 20000)) {
    const auto value = static_cast<float>(x);
    CHECK_EQ(F32ToBf16(value), EncodeFloat(kBf16, value, Rounding::kNearestEven, false));
  }
}

}  // namespace
}  // namespace tilelang::emulator
