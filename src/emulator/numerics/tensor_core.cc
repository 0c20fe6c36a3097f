#include "emulator/numerics/tensor_core.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "emulator/numerics/float_formats.h"

// The inner loops are compiled for several instruction sets and chosen when the library loads.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define TL_MULTIVERSION __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define TL_MULTIVERSION
#endif

namespace tilelang::emulator {
namespace {

constexpr int kBlock = DecodedMatrix::kLineBlock;
// Products below 2^27 in units of the last aligned bit: eight of them cannot overflow 32 bits.
constexpr int kGroup = 8;
// Exponents of f32 start at -126. The exponent of a zero accumulator does so, too, and no sum
// aligns lower.
constexpr int kLeastExponent = -126;

struct OperandFormat {
  const FloatFormat* format;
  const char* name;
};

constexpr std::array<OperandFormat, 13> kOperandFormats = {{
    {&kF16, "f16"},
    {&kBf16, "bf16"},
    {&kTf32, "tf32"},
    {&kE4m3, "e4m3"},
    {&kE5m2, "e5m2"},
    {&kE2m3, "e2m3"},
    {&kE3m2, "e3m2"},
    {&kE2m1, "e2m1"},
    {nullptr, "s8"},
    {nullptr, "u8"},
    {nullptr, "b1"},
    {nullptr, "s4"},
    {nullptr, "u4"},
}};

std::array<std::array<float, 256>, 5> ByteTables() {
  std::array<std::array<float, 256>, 5> tables;
  for (int t = 0; t < 5; ++t) {
    const FloatFormat& format = *kOperandFormats[static_cast<int>(MatrixType::kE4m3) + t].format;
    for (int code = 0; code < 256; ++code) {
      tables[t][code] = static_cast<float>(DecodeFloat(format, code));
    }
  }
  return tables;
}

// The sum of the terms of one output when at least one is infinite or NaN.
double SpecialSum(const FusedRowTask& task, int column, float c) {
  double sum = c;
  for (int i = task.first_k; i < task.first_k + task.k; ++i) {
    const double product =
        static_cast<double>(task.a->value[task.row * task.a->stride + i]) *
        static_cast<double>(
            task.b->value[task.LineOf(i) * task.b->stride + task.first_column + column]);
    if (!std::isfinite(product)) sum += product;
  }
  return sum;
}

// Aligned sum of one block of outputs: sum[j] * 2^(exponent[j] - fraction_bits) is exact.
struct AlignedBlock {
  double sum[kBlock];
  int32_t exponent[kBlock];
};

inline float PowerOfTwo(int exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

TL_MULTIVERSION void AlignBlock(const float* a_significand, const int32_t* a_exponent,
                                const float* b_significand, const int32_t* b_exponent, int b_stride,
                                const int32_t* places, int k, const float* c,
                                FusedSumOptions options, int least_c, AlignedBlock* out) {
  const int fraction_bits = options.fraction_bits;
  int32_t largest[kBlock];
  for (int j = 0; j < kBlock; ++j) {
    const int32_t biased = (std::bit_cast<int32_t>(c[j]) >> 23) & 0xFF;
    const int32_t exponent = c[j] != 0.0f ? std::max(biased - 127, least_c) : kLeastExponent;
    largest[j] = std::max(exponent - options.c_shift, kLeastExponent);
  }
  for (int i = 0; i < k; ++i) {
    const int32_t* eb = b_exponent + (places ? places[i] : i) * b_stride;
    for (int j = 0; j < kBlock; ++j) largest[j] = std::max(largest[j], a_exponent[i] + eb[j]);
  }
  double sum[kBlock];
  for (int j = 0; j < kBlock; ++j) {
    // |c| * 2^-exponent is below 2; scaling in double is exact before the truncation.
    const int64_t scale = static_cast<int64_t>(fraction_bits - largest[j] - options.c_shift + 1023)
                          << 52;
    sum[j] = static_cast<int32_t>(static_cast<double>(c[j]) * std::bit_cast<double>(scale));
  }
  for (int first = 0; first < k; first += kGroup) {
    int32_t part[kBlock] = {};
    const int last = std::min(k, first + kGroup);
    for (int i = first; i < last; ++i) {
      const float sa = a_significand[i];
      const int32_t ea = a_exponent[i] + fraction_bits;
      const int line = (places ? places[i] : i) * b_stride;
      const float* sb = b_significand + line;
      const int32_t* eb = b_exponent + line;
      for (int j = 0; j < kBlock; ++j) {
        const int32_t shift = std::max(ea + eb[j] - largest[j], -126);
        const float scale = std::bit_cast<float>((shift + 127) << 23);
        part[j] += static_cast<int32_t>(sa * sb[j] * scale);
      }
    }
    for (int j = 0; j < kBlock; ++j) sum[j] += part[j];
  }
  for (int j = 0; j < kBlock; ++j) {
    out->sum[j] = sum[j];
    out->exponent[j] = largest[j];
  }
}

TL_MULTIVERSION void TruncateBlock(const AlignedBlock& block, FusedSumOptions options, int count,
                                   float* d) {
  const int fraction_bits = options.fraction_bits;
  const uint32_t kept = ~0u << (23 - options.result_bits);
  uint32_t result[kBlock];
  for (int j = 0; j < kBlock; ++j) {
    const int64_t scale = static_cast<int64_t>(block.exponent[j] - fraction_bits + 1023) << 52;
    const double exact = block.sum[j] * std::bit_cast<double>(scale);
    const float nearest = static_cast<float>(exact);
    const double magnitude = std::fabs(exact);
    // Rounding to nearest went away from zero: step back. At 2^128 and beyond infinity stays.
    const bool beyond = std::fabs(static_cast<double>(nearest)) > magnitude;
    const bool step = beyond & (magnitude < 0x1p128);
    result[j] = (std::bit_cast<uint32_t>(nearest) - static_cast<uint32_t>(step)) & kept;
  }
  for (int j = 0; j < count; ++j) d[j] = std::bit_cast<float>(result[j]);
}

// Walks one row of D in blocks. `finish(block, first, count)` rounds and stores a block;
// `special(column, sum)` overrides an output whose sum is infinite or NaN. `least_c` is the
// exponent of a subnormal number of the accumulator's type, which is not normalised to be aligned
// (so an H200).
template <typename Finish, typename Special>
void FusedRow(const FusedRowTask& task, const float* c, int least_c, Finish finish,
              Special special) {
  const DecodedMatrix& a = *task.a;
  const DecodedMatrix& b = *task.b;
  for (int first = 0; first < task.n; first += kBlock) {
    const int count = std::min(kBlock, task.n - first);
    const int column = task.first_column + first;
    std::array<float, kBlock> c_original{};
    std::copy(c + first, c + first + count, c_original.begin());
    float c_block[kBlock] = {};
    bool any_special = a.special_line[task.row] != 0;
    for (int j = 0; j < count; ++j) {
      const bool finite = std::isfinite(c_original[j]);
      c_block[j] = finite ? c_original[j] : 0.0f;
      any_special |= !finite || b.special_line[column + j] != 0;
    }
    AlignedBlock block;
    const int a_at = task.row * a.stride + task.first_k;
    const int b_at = (task.places ? 0 : task.first_k * b.stride) + column;
    const int32_t* places = task.places ? task.places + task.first_k : nullptr;
    AlignBlock(a.significand.data() + a_at, a.exponent.data() + a_at, b.significand.data() + b_at,
               b.exponent.data() + b_at, b.stride, places, task.k, c_block, task.options, least_c,
               &block);
    finish(block, first, count);
    if (!any_special) continue;
    for (int j = 0; j < count; ++j) {
      const double sum = SpecialSum(task, first + j, c_original[j]);
      if (!std::isfinite(sum)) special(first + j, sum);
    }
  }
}

}  // namespace

const char* MatrixTypeName(MatrixType type) { return kOperandFormats[static_cast<int>(type)].name; }

FusedSumOptions AccumulationOf(TensorCore unit, MatrixType type) {
  FusedSumOptions options;
  const bool fp8 = type == MatrixType::kE4m3 || type == MatrixType::kE5m2;
  if (unit == TensorCore::kHopperWarpgroup && fp8) {
    options.fraction_bits = 13;
    options.result_bits = 13;
  }
  if (unit == TensorCore::kAmpere) {
    options.fraction_bits = 24;
    options.sum_bytes = 16;
  }
  return options;
}

void DecodedMatrix::Reset(int outer_count, int inner_count, int special_count) {
  outer = outer_count;
  inner = inner_count;
  stride = (inner_count + kLineBlock - 1) / kLineBlock * kLineBlock;
  // A block that starts inside the last line may read past it.
  const size_t size = static_cast<size_t>(outer) * stride + kLineBlock;
  significand.assign(size, 0.0f);
  exponent.assign(size, kZeroExponent);
  value.assign(size, 0.0f);
  special_line.assign(special_count, 0);
}

float DecodeElement(MatrixType type, uint32_t bits) {
  switch (type) {
    case MatrixType::kF16:
      return F16ToF32(static_cast<uint16_t>(bits));
    case MatrixType::kBf16:
      return Bf16ToF32(static_cast<uint16_t>(bits));
    case MatrixType::kTf32:
      return std::bit_cast<float>(bits & 0xFFFFE000u);
    case MatrixType::kS8:
      return static_cast<int8_t>(bits);
    case MatrixType::kU8:
    case MatrixType::kB1:
      return static_cast<uint8_t>(bits);
    case MatrixType::kS4:
      return static_cast<int8_t>(bits << 4) >> 4;
    case MatrixType::kU4:
      return bits & 0xF;
    default: {
      static const auto tables = ByteTables();
      return tables[static_cast<int>(type) - static_cast<int>(MatrixType::kE4m3)][bits & 0xFF];
    }
  }
}

void StoreElement(DecodedMatrix& matrix, MatrixType type, int outer, int inner, int line,
                  float value) {
  const size_t at = static_cast<size_t>(outer) * matrix.stride + inner;
  matrix.value[at] = value;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude == 0) {
    matrix.significand[at] = 0.0f;
    matrix.exponent[at] = DecodedMatrix::kZeroExponent;
  } else if (magnitude >= 0x7F800000u) {
    matrix.significand[at] = 0.0f;
    matrix.exponent[at] = DecodedMatrix::kZeroExponent;
    matrix.special_line[line] = 1;
  } else {
    const int least = kOperandFormats[static_cast<int>(type)].format->min_exponent();
    const int exponent = static_cast<int>(magnitude >> 23) - 127;
    matrix.exponent[at] = std::max(exponent, least);
    matrix.significand[at] = exponent < least
                                 ? value * PowerOfTwo(-least)
                                 : std::bit_cast<float>((bits & 0x807FFFFFu) | 0x3F800000u);
  }
}

void FusedRowToF32(const FusedRowTask& task, const float* c, float* d) {
  FusedRow(
      task, c, kLeastExponent,
      [&](const AlignedBlock& block, int first, int count) {
        TruncateBlock(block, task.options, count, d + first);
      },
      [&](int column, double sum) {
        d[column] = std::isnan(sum) ? std::bit_cast<float>(0x7FFFFFFFu) : static_cast<float>(sum);
      });
}

void FusedRowToF16(const FusedRowTask& task, const float* c, uint16_t* d) {
  const auto round = [](double value) {
    const uint32_t code = EncodeFloat(kF16, value, Rounding::kNearestEven, false);
    return static_cast<uint16_t>(code == kF16.sign_bit() ? 0 : code);
  };
  FusedRow(
      task, c, kF16.min_exponent(),
      [&](const AlignedBlock& block, int first, int count) {
        for (int j = 0; j < count; ++j) {
          d[first + j] =
              round(std::ldexp(block.sum[j], block.exponent[j] - task.options.fraction_bits));
        }
      },
      [&](int column, double sum) { d[column] = round(sum); });
}

TL_MULTIVERSION void IntegerRow(const int16_t* a, const int16_t* b, int b_stride, int k, int n,
                                bool saturate, const int32_t* places, const int32_t* c,
                                int32_t* d) {
  std::array<int32_t, 256> product_sum{};
  for (int i = 0; i < k; ++i) {
    const int32_t scale = a[i];
    const int16_t* line = b + (places ? places[i] : i) * b_stride;
    for (int j = 0; j < n; ++j) product_sum[j] += scale * line[j];
  }
  for (int j = 0; j < n; ++j) {
    const int64_t exact = static_cast<int64_t>(product_sum[j]) + c[j];
    const int64_t low = std::numeric_limits<int32_t>::min();
    const int64_t high = std::numeric_limits<int32_t>::max();
    d[j] = static_cast<int32_t>(saturate ? std::clamp(exact, low, high) : exact);
  }
}

TL_MULTIVERSION void BinaryRow(const int16_t* a, const int16_t* b, int b_stride, int k, int n,
                               bool exclusive, const int32_t* c, int32_t* d) {
  // Sums wrap around.
  std::array<uint32_t, 256> sum{};
  for (int j = 0; j < n; ++j) sum[j] = static_cast<uint32_t>(c[j]);
  for (int i = 0; i < k; ++i) {
    const uint32_t bits = static_cast<uint16_t>(a[i]);
    const int16_t* line = b + i * b_stride;
    for (int j = 0; j < n; ++j) {
      const uint32_t other = static_cast<uint16_t>(line[j]);
      sum[j] += static_cast<uint32_t>(std::popcount(exclusive ? bits ^ other : bits & other));
    }
  }
  for (int j = 0; j < n; ++j) d[j] = static_cast<int32_t>(sum[j]);
}

}  // namespace tilelang::emulator
