// Products of matrices of elements, as the tensor core forms them: D = A * B + D.
#ifndef TILELANG_EMULATOR_ALGEBRA_PRODUCT_H_
#define TILELANG_EMULATOR_ALGEBRA_PRODUCT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/algebra/field.h"

namespace tilelang::emulator {

// Keeps its memory between products.
class ElementProduct {
 public:
  // A has m rows of k elements, B has `lines` lines of n: k of them, or more if A is sparse.
  // Everything that follows is to be set before Row.
  void Start(int n, int lines);
  void StartA(int m, int k);
  void SetA(int row, int k, const Element& element);
  void SetB(int column, int k, const Element& element);
  // Element `k` of a row of a sparse A meets line `place` of B.
  void SetPlace(int row, int k, int place) { places_[static_cast<size_t>(row * k_ + k)] = place; }
  // Multiplies the elements of a row from `first` to `last`, exclusive.
  void ScaleA(int row, int first, int last, const Element& scale);
  void ScaleB(int column, int first, int last, const Element& scale);
  // The sums of so many columns of a row, to which `sums` is added before. Unknown where an operand
  // is.
  void Row(int row, int first_column, int columns, Element* sums) const;

 private:
  // Bits that tell what the line of a matrix lacks.
  enum Lack : uint8_t { kExponents = 1, kAll = 2 };

  const int32_t* PlacesOf(int row) const { return &places_[static_cast<size_t>(row * k_)]; }
  static Element Stored(const Element& element, uint8_t* lacks);

  int m_ = 0, n_ = 0, k_ = 0, lines_ = 0;
  std::vector<Element> a_;
  std::vector<uint32_t> b_[kParts];  // by line and column
  std::vector<int32_t> places_;
  std::vector<uint8_t> a_lacks_, b_lacks_;  // of rows of A, of columns of B
};

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_ALGEBRA_PRODUCT_H_
