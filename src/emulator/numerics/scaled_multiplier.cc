#include "emulator/numerics/scaled_multiplier.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "emulator/numerics/float_formats.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define TL_SCALED_MULTIVERSION __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define TL_SCALED_MULTIVERSION
#endif

namespace tilelang::emulator {
namespace {

constexpr int kMostColumns = 256;
constexpr int kSumGroup = 16;  // elements that are summed before they are scaled
constexpr int kFp4FractionBits = 35;
constexpr int kLeastAlignment = -126;  // of f32, and of zeros
constexpr int kNoExponent = -4096;     // too small to matter

double PowerOf2(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(std::max(exponent, -1000) + 1023) << 52);
}

TL_SCALED_MULTIVERSION void SumGroup(const int16_t* a, const int16_t* b, int stride,
                                     const int32_t* places, int columns, int32_t* sum) {
  std::fill_n(sum, columns, 0);
  for (int i = 0; i < kSumGroup; ++i) {
    const int32_t factor = a[i];
    const int16_t* line = b + places[i] * stride;
    for (int j = 0; j < columns; ++j) sum[j] += factor * line[j];
  }
}

// Toward zero; magnitudes from 2^128 on are infinite, and no zero is negative.
float TruncateToF32(double exact) {
  const float nearest = static_cast<float>(exact);
  const double magnitude = std::fabs(exact);
  const bool beyond = std::fabs(static_cast<double>(nearest)) > magnitude && magnitude < 0x1p128;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(nearest) - static_cast<uint32_t>(beyond));
}

double Truncate(double value) { return static_cast<double>(static_cast<int64_t>(value)); }

// A sum with an infinite or NaN term: the accumulator's, unless a scale factor is NaN.
float SpecialScaledSum(float c, bool nan) {
  return nan || std::isnan(c) ? std::bit_cast<float>(0x7FFFFFFFu) : c;
}

}  // namespace

ScaleFactor DecodeScale(ScaleType type, uint8_t code) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  if (type == ScaleType::kUe8m0) return {code == 0xFF ? kNan : 1.0f, code - 127};
  const int magnitude = code & 0x7F, biased = magnitude >> 3;
  if (magnitude == 0x7F) return {kNan, 0};
  if (magnitude == 0) return {0.0f, kNoExponent};
  const float fraction = static_cast<float>(magnitude & 7) / 8;
  return biased == 0 ? ScaleFactor{fraction, -6} : ScaleFactor{1 + fraction, biased - 7};
}

void ScaledMultiplier::Start(const ScaledShape& shape) {
  shape_ = shape;
  if (!shape.fp4) {
    MultiplierShape fused{shape.m, shape.n, shape.k, shape.a_type, shape.b_type};
    fused.negate_a = shape.negate_a;
    fused.negate_b = shape.negate_b;
    fused.options = AccumulationOf(TensorCore::kBlackwell, shape.a_type);
    fused.sparse = shape.sparse;
    return fused_.Start(fused);
  }
  const size_t lines = static_cast<size_t>(shape.n);
  b_.assign(lines * shape.lines(), 0);
  b_significand_.assign(lines * shape.blocks, 0);
  b_exponent_.assign(lines * shape.blocks, kNoExponent);
}

void ScaledMultiplier::StartA() {
  if (!shape_.fp4) return fused_.StartA();
  const size_t lines = static_cast<size_t>(shape_.m);
  a_.assign(lines * shape_.k, 0);
  places_.resize(lines * shape_.k);
  for (size_t i = 0; i < places_.size(); ++i) places_[i] = static_cast<int32_t>(i % shape_.k);
  a_significand_.assign(lines * shape_.blocks, 0);
  a_exponent_.assign(lines * shape_.blocks, kNoExponent);
}

void ScaledMultiplier::SetA(int row, int k, uint32_t bits) {
  if (!shape_.fp4) return fused_.SetA(row, k, bits);
  const float value = DecodeElement(MatrixType::kE2m1, bits) * (shape_.negate_a ? -2 : 2);
  a_[row * shape_.k + k] = static_cast<int16_t>(value);
}

void ScaledMultiplier::SetB(int column, int k, uint32_t bits) {
  if (!shape_.fp4) return fused_.SetB(column, k, bits);
  const float value = DecodeElement(MatrixType::kE2m1, bits) * (shape_.negate_b ? -2 : 2);
  b_[k * shape_.n + column] = static_cast<int16_t>(value);
}

void ScaledMultiplier::SetPlace(int row, int k, int place) {
  if (!shape_.fp4) return fused_.SetPlace(row, k, place);
  places_[row * shape_.k + k] = place;
}

void ScaledMultiplier::ScaleA(int row, int block, uint8_t code) {
  const ScaleFactor factor = DecodeScale(shape_.scale_type, code);
  if (!shape_.fp4) return fused_.ScaleA(row, factor.exponent, std::isnan(factor.significand));
  a_significand_[row * shape_.blocks + block] = factor.significand;
  a_exponent_[row * shape_.blocks + block] = factor.exponent;
}

void ScaledMultiplier::ScaleB(int column, int block, uint8_t code) {
  const ScaleFactor factor = DecodeScale(shape_.scale_type, code);
  if (!shape_.fp4) return fused_.ScaleB(column, factor.exponent, std::isnan(factor.significand));
  b_significand_[block * shape_.n + column] = factor.significand;
  b_exponent_[block * shape_.n + column] = factor.exponent;
}

void ScaledMultiplier::Fp4Row(int row, int first_column, int columns, float* sum) const {
  const int groups_of_block = shape_.k / shape_.blocks / kSumGroup;
  const float* a_significand = a_significand_.data() + row * shape_.blocks;
  const int32_t* a_exponent = a_exponent_.data() + row * shape_.blocks;
  int32_t largest[kMostColumns];
  bool special[kMostColumns] = {}, nan[kMostColumns] = {};
  for (int j = 0; j < columns; ++j) {
    const int biased = static_cast<int>(std::bit_cast<uint32_t>(sum[j]) >> 23 & 0xFF);
    special[j] = biased == 0xFF;
    largest[j] = special[j] ? kLeastAlignment : std::max(biased - 127, kLeastAlignment);
  }
  for (int block = 0; block < shape_.blocks; ++block) {
    const int at = block * shape_.n + first_column;
    for (int j = 0; j < columns; ++j) {
      largest[j] = std::max(largest[j], a_exponent[block] + b_exponent_[at + j]);
      nan[j] |= std::isnan(a_significand[block] * b_significand_[at + j]);
    }
  }
  double total[kMostColumns];
  for (int j = 0; j < columns; ++j) {
    const double c = special[j] ? 0.0 : sum[j];
    total[j] = Truncate(c * PowerOf2(kFp4FractionBits - largest[j]));
  }
  for (int group = 0; group < shape_.k / kSumGroup; ++group) {
    const int block = group / groups_of_block, at = block * shape_.n + first_column;
    int32_t products[kMostColumns];
    const int first = row * shape_.k + group * kSumGroup;
    SumGroup(a_.data() + first, b_.data() + first_column, shape_.n, places_.data() + first, columns,
             products);
    for (int j = 0; j < columns; ++j) {
      if (nan[j]) continue;
      // Both elements were doubled.
      const double scale = 0.25 * a_significand[block] * b_significand_[at + j];
      const int shift = a_exponent[block] + b_exponent_[at + j] - largest[j] + kFp4FractionBits;
      total[j] += Truncate(products[j] * scale * PowerOf2(shift));
    }
  }
  for (int j = 0; j < columns; ++j) {
    sum[j] = special[j] || nan[j]
                 ? SpecialScaledSum(sum[j], nan[j])
                 : TruncateToF32(total[j] * PowerOf2(largest[j] - kFp4FractionBits));
  }
}

void ScaledMultiplier::Row(int row, int first_column, int columns, bool accumulate,
                           uint32_t* cells) const {
  if (!shape_.fp4) return fused_.Row(row, first_column, columns, accumulate, cells);
  float sum[kMostColumns] = {};
  for (int j = 0; accumulate && j < columns; ++j) sum[j] = std::bit_cast<float>(cells[j]);
  Fp4Row(row, first_column, columns, sum);
  for (int j = 0; j < columns; ++j) cells[j] = std::bit_cast<uint32_t>(sum[j]);
}

}  // namespace tilelang::emulator
