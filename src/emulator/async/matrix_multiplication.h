// A multiplication of the tensor core on operands in memory and registers: the arithmetic on their
// bits alone, or, in the algebraic mode, on their elements as well.
#ifndef TILELANG_EMULATOR_ASYNC_MATRIX_MULTIPLICATION_H_
#define TILELANG_EMULATOR_ASYNC_MATRIX_MULTIPLICATION_H_

#include <cstdint>
#include <type_traits>
#include <vector>

#include "emulator/algebra/product.h"
#include "emulator/async/matrix_operand.h"
#include "emulator/core/machine.h"
#include "emulator/numerics/scaled_multiplier.h"

namespace tilelang::emulator {

// A float in a lane's register of a warp, `offset` bytes from its start.
struct RegisterElement {
  Warp* warp;
  uint32_t slot;
  int lane;
  int offset;
};

// `Multiplier`: MatrixMultiplier or ScaledMultiplier.
template <typename Multiplier>
class PlainMultiplication {
 public:
  using Shape = std::conditional_t<std::is_same_v<Multiplier, ScaledMultiplier>, ScaledShape,
                                   MultiplierShape>;
  static constexpr bool kScaled = std::is_same_v<Multiplier, ScaledMultiplier>;

  void Start(const Shape& shape) {
    a_type_ = shape.a_type;
    b_type_ = shape.b_type;
    multiplier_.Start(shape);
  }
  void StartA() { multiplier_.StartA(); }
  void SetA(int row, int k, const OperandElement& at) {
    multiplier_.SetA(row, k, at.Bits(a_type_));
  }
  void SetA(int row, int k, uint32_t bits, const RegisterElement&) {
    multiplier_.SetA(row, k, bits);
  }
  void SetB(int column, int k, const OperandElement& at) {
    multiplier_.SetB(column, k, at.bytes ? at.Bits(b_type_) : 0);
  }
  void SetPlace(int row, int k, int place) { multiplier_.SetPlace(row, k, place); }
  void ScaleA(int row, int block, const uint8_t* code) {
    if constexpr (kScaled) multiplier_.ScaleA(row, block, *code);
  }
  void ScaleB(int column, int block, const uint8_t* code) {
    if constexpr (kScaled) multiplier_.ScaleB(column, block, *code);
  }
  void Row(int row, int columns, bool accumulate, uint32_t* cells) {
    multiplier_.Row(row, 0, columns, accumulate, cells);
  }
  // Computes a row of results in cells of tensor memory.
  void RowInPlace(int row, int first_column, int columns, bool accumulate, uint32_t* cells) {
    multiplier_.Row(row, first_column, columns, accumulate, cells);
  }
  // Around a row whose accumulators lie in registers; see FollowedMultiplication.
  template <typename Registers>
  void FollowRow(int, int, bool, Registers) {}
  template <typename Registers>
  void StoreRow(Registers) {}

 protected:
  Multiplier multiplier_;
  MatrixType a_type_ = MatrixType::kF16;
  MatrixType b_type_ = MatrixType::kF16;
};

// The part of the algebraic mode that does not depend on the multiplier.
class FollowedOperands {
 public:
  void Start(const MultiplierShape& shape);
  void Start(const ScaledShape& shape);
  void StartA();
  void SetA(int row, int k, const OperandElement& at);
  void SetA(int row, int k, const RegisterElement& at);
  void SetB(int column, int k, const OperandElement& at);
  void SetPlace(int row, int k, int place);
  void ScaleA(int row, int block, const uint8_t* code);
  void ScaleB(int column, int block, const uint8_t* code);
  void RowInPlace(int row, int first_column, int columns, bool accumulate, const uint32_t* cells);
  void StoreInPlace(int columns, uint32_t* cells);
  // The old accumulator in a register, or 0; then the row; then the new accumulator.
  void SetSum(int column, const RegisterElement* at);
  void Row(int row, int columns);
  void StoreSum(int column, const RegisterElement& at);

 private:
  void Start(const ScaledShape& shape, AccumulatorType d_type, int c_shift);
  Element ElementAt(MatrixType type, const OperandElement& at) const;
  Element Scale(const uint8_t* code) const;
  Type accumulator() const { return half_ ? Type::kF16 : Type::kF32; }

  ScaledShape shape_;
  bool followed_ = false;  // not of integers
  bool half_ = false;      // of f16 accumulators
  int c_shift_ = 0;
  ElementProduct product_;
  std::vector<Element> sums_;
};

template <typename Multiplier>
class FollowedMultiplication : public PlainMultiplication<Multiplier> {
 public:
  using Plain = PlainMultiplication<Multiplier>;

  void Start(const typename Plain::Shape& shape) {
    Plain::Start(shape);
    operands_.Start(shape);
  }
  void StartA() {
    Plain::StartA();
    operands_.StartA();
  }
  void SetA(int row, int k, const OperandElement& at) {
    Plain::SetA(row, k, at);
    operands_.SetA(row, k, at);
  }
  void SetA(int row, int k, uint32_t bits, const RegisterElement& at) {
    Plain::SetA(row, k, bits, at);
    operands_.SetA(row, k, at);
  }
  void SetB(int column, int k, const OperandElement& at) {
    Plain::SetB(column, k, at);
    operands_.SetB(column, k, at);
  }
  void SetPlace(int row, int k, int place) {
    Plain::SetPlace(row, k, place);
    operands_.SetPlace(row, k, place);
  }
  void ScaleA(int row, int block, const uint8_t* code) {
    Plain::ScaleA(row, block, code);
    operands_.ScaleA(row, block, code);
  }
  void ScaleB(int column, int block, const uint8_t* code) {
    Plain::ScaleB(column, block, code);
    operands_.ScaleB(column, block, code);
  }
  void RowInPlace(int row, int first_column, int columns, bool accumulate, uint32_t* cells) {
    operands_.RowInPlace(row, first_column, columns, accumulate, cells);
    Plain::RowInPlace(row, first_column, columns, accumulate, cells);
    operands_.StoreInPlace(columns, cells);
  }
  // registers(each) calls each(column, register).
  template <typename Registers>
  void FollowRow(int row, int columns, bool accumulate, Registers registers) {
    registers([&](int column, const RegisterElement& at) {
      operands_.SetSum(column, accumulate ? &at : nullptr);
    });
    operands_.Row(row, columns);
  }
  template <typename Registers>
  void StoreRow(Registers registers) {
    registers([&](int column, const RegisterElement& at) { operands_.StoreSum(column, at); });
  }

 private:
  FollowedOperands operands_;
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ASYNC_MATRIX_MULTIPLICATION_H_
