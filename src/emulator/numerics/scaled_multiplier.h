// One block-scaled instruction of the tensor core on decoded operands: D = (A * SFA) * (B * SFB) +
// D, with a scale factor for each row of A, column of B and block of K.
#ifndef TILELANG_EMULATOR_NUMERICS_SCALED_MULTIPLIER_H_
#define TILELANG_EMULATOR_NUMERICS_SCALED_MULTIPLIER_H_

#include <cstdint>
#include <vector>

#include "emulator/numerics/matrix_multiplier.h"

namespace tilelang::emulator {

enum class ScaleType : uint8_t { kUe8m0, kUe4m3 };

// A scale factor: significand * 2^exponent; NaN has a significand that is NaN.
struct ScaleFactor {
  float significand = 1;
  int32_t exponent = 0;
};

// The sign of ue4m3, which has none, is ignored (MMA-Sim, arXiv 2511.10909).
ScaleFactor DecodeScale(ScaleType type, uint8_t code);

struct ScaledShape {
  int m = 0;
  int n = 0;
  int k = 0;
  MatrixType a_type = MatrixType::kE4m3;
  MatrixType b_type = MatrixType::kE4m3;
  bool negate_a = false;
  bool negate_b = false;
  ScaleType scale_type = ScaleType::kUe8m0;
  int blocks = 1;       // scale factors of a row, each of k / blocks elements
  bool fp4 = false;     // the arithmetic of kind::mxf4 and mxf4nvf4
  bool sparse = false;  // A: k counts what a row stores, and B has twice as many lines

  int lines() const { return sparse ? 2 * k : k; }
};

// Multiplies matrices with scale factors. In kind::mxf8f6f4, whose K is one block, terms add as
// without scale factors, which add to the exponents of the products. For e2m1, products of 16
// elements are summed exactly, multiplied by the significands of the two scale factors, aligned to
// the largest exponent (of the scale factors, or of the accumulator), truncated to 35 fractional
// bits and added exactly; the sum is truncated to f32. Source: MMA-Sim.
class ScaledMultiplier {
 public:
  // These functions act like those of MatrixMultiplier, including the places of a sparse A. Call
  // ScaleA and ScaleB for every row, column and block after the elements are set.
  void Start(const ScaledShape& shape);
  void StartA();
  void SetA(int row, int k, uint32_t bits);
  void SetB(int column, int k, uint32_t bits);
  void SetPlace(int row, int k, int place);
  void ScaleA(int row, int block, uint8_t code);
  void ScaleB(int column, int block, uint8_t code);
  void Row(int row, int first_column, int columns, bool accumulate, uint32_t* cells) const;

 private:
  void Fp4Row(int row, int first_column, int columns, float* sum) const;

  ScaledShape shape_;
  MatrixMultiplier fused_;  // of kind::mxf8f6f4
  // Used for e2m1: twice the elements, and the scale factors, by line: rows of A; blocks, then
  // columns of B.
  std::vector<int16_t> a_, b_;
  std::vector<int32_t> places_;
  std::vector<float> a_significand_, b_significand_;
  std::vector<int32_t> a_exponent_, b_exponent_;
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_NUMERICS_SCALED_MULTIPLIER_H_
