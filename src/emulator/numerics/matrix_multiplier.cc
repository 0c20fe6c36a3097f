#include "emulator/numerics/matrix_multiplier.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "emulator/numerics/float_formats.h"

namespace tilelang::emulator {
namespace {

constexpr int kMaxColumns = 256;

}  // namespace

void MatrixMultiplier::Start(const MultiplierShape& shape) {
  shape_ = shape;
  integer_ = IsInteger(shape.a_type);
  if (integer_) {
    integer_b_.resize(static_cast<size_t>(shape.n) * shape.lines());
  } else {
    b_.Reset(shape.lines(), shape.n, shape.n);
  }
}

void MatrixMultiplier::StartA() {
  if (shape_.sparse) places_.resize(static_cast<size_t>(shape_.m) * shape_.k);
  if (integer_) {
    integer_a_.resize(static_cast<size_t>(shape_.m) * shape_.k);
  } else {
    a_.Reset(shape_.m, shape_.k, shape_.m);
  }
}

void MatrixMultiplier::ScaleA(int row, int exponent, bool nan) {
  for (int i = row * a_.stride; i < row * a_.stride + shape_.k; ++i) {
    a_.exponent[i] += exponent;
    if (nan) a_.value[i] = std::numeric_limits<float>::quiet_NaN();
  }
  a_.special_line[row] |= nan;
}

void MatrixMultiplier::ScaleB(int column, int exponent, bool nan) {
  for (int i = column; i < shape_.lines() * b_.stride; i += b_.stride) {
    b_.exponent[i] += exponent;
    if (nan) b_.value[i] = std::numeric_limits<float>::quiet_NaN();
  }
  b_.special_line[column] |= nan;
}

void MatrixMultiplier::IntegerCells(int row, int first_column, int columns, bool accumulate,
                                    uint32_t* cells) const {
  const int16_t* a = integer_a_.data() + row * shape_.k;
  const int16_t* b = integer_b_.data() + first_column;
  int32_t c[kMaxColumns] = {};
  if (accumulate) std::memcpy(c, cells, columns * sizeof(int32_t));
  int32_t d[kMaxColumns];
  if (shape_.a_type == MatrixType::kB1) {
    BinaryRow(a, b, shape_.n, shape_.k, columns, shape_.exclusive, c, d);
  } else {
    IntegerRow(a, b, shape_.n, shape_.k, columns, shape_.saturate, PlacesOf(row), c, d);
  }
  std::memcpy(cells, d, columns * sizeof(int32_t));
}

void MatrixMultiplier::AddTerms(const FusedRowTask& task, float* sum) const {
  if (shape_.d_type != AccumulatorType::kF16) {
    float d[kMaxColumns];
    FusedRowToF32(task, sum, d);
    std::copy(d, d + task.n, sum);
    return;
  }
  uint16_t d[kMaxColumns];
  FusedRowToF16(task, sum, d);
  std::transform(d, d + task.n, sum, F16ToF32);
}

void MatrixMultiplier::Row(int row, int first_column, int columns, bool accumulate,
                           uint32_t* cells) const {
  if (integer_) return IntegerCells(row, first_column, columns, accumulate, cells);
  const bool half = shape_.d_type == AccumulatorType::kF16;
  float sum[kMaxColumns] = {};
  for (int j = 0; accumulate && j < columns; ++j) {
    sum[j] = half ? F16ToF32(static_cast<uint16_t>(cells[j])) : std::bit_cast<float>(cells[j]);
  }
  const int step = shape_.options.sum_bytes
                       ? shape_.options.sum_bytes / ContainerBytes(shape_.a_type)
                       : shape_.k;
  for (int k = 0; k < shape_.k; k += step) {
    AddTerms({&a_, &b_, row, first_column, k, std::min(step, shape_.k - k), columns, shape_.options,
              PlacesOf(row)},
             sum);
  }
  for (int j = 0; j < columns; ++j) {
    cells[j] = half ? F32ToF16(sum[j]) : std::bit_cast<uint32_t>(sum[j]);
  }
}

}  // namespace tilelang::emulator
