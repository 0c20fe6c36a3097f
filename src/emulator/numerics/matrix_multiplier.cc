#include "emulator/numerics/matrix_multiplier.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/numerics/float_formats.h"

namespace tilelang::emulator {
namespace {

constexpr int kMaxColumns = 256;

}  // namespace

void MatrixMultiplier::Start(const MultiplierShape& shape) {
  shape_ = shape;
  integer_ = IsInteger(shape.a_type);
  if (integer_) {
    integer_b_.resize(static_cast<size_t>(shape.n) * shape.k);
  } else {
    b_.Reset(shape.k, shape.n, shape.n);
  }
}

void MatrixMultiplier::StartA() {
  if (integer_) {
    integer_a_.resize(static_cast<size_t>(shape_.m) * shape_.k);
  } else {
    a_.Reset(shape_.m, shape_.k, shape_.m);
  }
}

void MatrixMultiplier::IntegerCells(int row, int first_column, int columns, bool accumulate,
                                    uint32_t* cells) const {
  const int16_t* a = integer_a_.data() + row * shape_.k;
  const int16_t* b = integer_b_.data() + first_column;
  int32_t c[kMaxColumns] = {};
  if (accumulate) std::memcpy(c, cells, columns * sizeof(int32_t));
  int32_t d[kMaxColumns];
  if (shape_.a_type == MatrixType::kB1) {
    BinaryRow(a, b, shape_.n, shape_.k, columns, c, d);
  } else {
    IntegerRow(a, b, shape_.n, shape_.k, columns, shape_.saturate, c, d);
  }
  std::memcpy(cells, d, columns * sizeof(int32_t));
}

void MatrixMultiplier::Row(int row, int first_column, int columns, bool accumulate,
                           uint32_t* cells) const {
  if (integer_) return IntegerCells(row, first_column, columns, accumulate, cells);
  const FusedRowTask task{&a_, &b_, row, first_column, shape_.k, columns, shape_.options};
  const bool half = shape_.d_type == AccumulatorType::kF16;
  float c[kMaxColumns] = {};
  for (int j = 0; accumulate && j < columns; ++j) {
    c[j] = half ? F16ToF32(static_cast<uint16_t>(cells[j])) : std::bit_cast<float>(cells[j]);
  }
  if (half) {
    uint16_t d[kMaxColumns];
    FusedRowToF16(task, c, d);
    std::copy(d, d + columns, cells);
  } else {
    float d[kMaxColumns];
    FusedRowToF32(task, c, d);
    std::memcpy(cells, d, columns * sizeof(float));
  }
}

}  // namespace tilelang::emulator
