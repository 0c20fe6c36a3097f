// One instruction of the tensor core on decoded operands, floating-point or integer.
#ifndef TILELANG_EMULATOR_NUMERICS_MATRIX_MULTIPLIER_H_
#define TILELANG_EMULATOR_NUMERICS_MATRIX_MULTIPLIER_H_

#include <cstdint>
#include <vector>

#include "emulator/numerics/tensor_core.h"

namespace tilelang::emulator {

// The shape of D [m, n] = A [m, k] * B [k, n] + D. k counts containers of elements; for a sparse A
// it counts the containers that a row stores, and B has twice as many lines.
struct MultiplierShape {
  int m = 0;
  int n = 0;
  int k = 0;
  MatrixType a_type = MatrixType::kF16;
  MatrixType b_type = MatrixType::kF16;
  AccumulatorType d_type = AccumulatorType::kF32;
  bool negate_a = false;
  bool negate_b = false;
  bool saturate = false;   // to s32
  bool exclusive = false;  // .xor.popc of b1
  FusedSumOptions options = {};
  bool sparse = false;

  int lines() const { return sparse ? 2 * k : k; }
};

// Keeps its memory between instructions, because allocating it would cost more than decoding.
class MatrixMultiplier {
 public:
  // Starts an instruction: StartA and every element of A and B, and the place of every element of
  // a sparse A, must follow before Row.
  void Start(const MultiplierShape& shape);
  void StartA();
  // Sets an element of A. `bits` are the bits of its container.
  void SetA(int row, int k, uint32_t bits) {
    const float value = DecodeElement(shape_.a_type, bits);
    if (integer_) {
      integer_a_[row * shape_.k + k] = static_cast<int16_t>(value);
    } else {
      StoreElement(a_, shape_.a_type, row, k, row, shape_.negate_a ? -value : value);
    }
  }
  void SetB(int column, int k, uint32_t bits) {
    const float value = DecodeElement(shape_.b_type, bits);
    if (integer_) {
      integer_b_[k * shape_.n + column] = static_cast<int16_t>(value);
    } else {
      StoreElement(b_, shape_.b_type, k, column, column, shape_.negate_b ? -value : value);
    }
  }
  // Element `k` of a row of a sparse A is at `place` along K.
  void SetPlace(int row, int k, int place) { places_[row * shape_.k + k] = place; }
  // Multiplies a row of A or a column of B, all of whose elements are set, by 2^exponent or NaN.
  void ScaleA(int row, int exponent, bool nan);
  void ScaleB(int column, int exponent, bool nan);
  // Computes `columns` (at most 256) columns of a row of D from `first_column` on. `cells` hold one
  // f32, s32 or, in their low half, f16 each: the old D, which counts if `accumulate`, then the
  // new.
  void Row(int row, int first_column, int columns, bool accumulate, uint32_t* cells) const;

 private:
  void IntegerCells(int row, int first_column, int columns, bool accumulate, uint32_t* cells) const;
  const int32_t* PlacesOf(int row) const {
    return shape_.sparse ? places_.data() + row * shape_.k : nullptr;
  }
  // `sum` becomes what `task` makes of it; in the type of D.
  void AddTerms(const FusedRowTask& task, float* sum) const;

  MultiplierShape shape_;
  bool integer_ = false;
  DecodedMatrix a_, b_;
  std::vector<int16_t> integer_a_, integer_b_;
  std::vector<int32_t> places_;  // of the elements of a sparse A
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_NUMERICS_MATRIX_MULTIPLIER_H_
