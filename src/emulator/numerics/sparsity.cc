#include "emulator/numerics/sparsity.h"

namespace tilelang::emulator {
namespace {

bool HasMeaning(SparsePattern pattern, IndexOrder order, uint32_t index) {
  if (pattern == SparsePattern::kOneOfTwo) return index == 0b0100 || index == 0b1110;
  const uint32_t first = index & 3, second = index >> 2;
  if (order == IndexOrder::kAny) return first != second;
  return first < second || (order == IndexOrder::kTensorMemory && index == 0b0110);
}

std::string Binary(uint32_t index) {
  std::string text = "0b";
  for (int bit = kIndexBits - 1; bit >= 0; --bit) text += index >> bit & 1 ? '1' : '0';
  return text;
}

const char* Legal(SparsePattern pattern, IndexOrder order) {
  if (pattern == SparsePattern::kOneOfTwo) return "0b0100 and 0b1110";
  switch (order) {
    case IndexOrder::kAny:
      return "any but 0b0000, 0b0101, 0b1010 and 0b1111";
    case IndexOrder::kGrowing:
      return "0b0100, 0b1000, 0b1001, 0b1100, 0b1101 and 0b1110";
    case IndexOrder::kTensorMemory:
      return "0b0100, 0b0110, 0b1000, 0b1001, 0b1100, 0b1101 and 0b1110";
  }
  return "";
}

}  // namespace

std::string IndexProblem(SparsePattern pattern, IndexOrder order, int row, int chunk,
                         uint32_t index) {
  if (HasMeaning(pattern, order, index)) return "";
  const int length = 2 * StoredInChunk(pattern);
  return "the metadata of the sparse A is " + Binary(index) + " for row " + std::to_string(row) +
         ", elements " + std::to_string(chunk * length) + " to " +
         std::to_string(chunk * length + length - 1) +
         " along K; values that have a meaning: " + Legal(pattern, order);
}

}  // namespace tilelang::emulator
