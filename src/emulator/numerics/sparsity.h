// Structured sparsity of operand A: its rows hold half of their elements, and four bits of metadata
// for each chunk of a row say which.
//
// tf32: a chunk is two elements along K, of which one is stored; 0b1110 is the second, 0b0100 the
// first. Types of eight and sixteen bits: of four elements two are stored, whose places are two
// indices of two bits, the first in the low bits. Types of four bits in packed bytes: of eight
// elements two pairs are stored, whose places are such indices, too. Source: PTX ISA, "Sparse
// matrix storage".
#ifndef TILELANG_EMULATOR_NUMERICS_SPARSITY_H_
#define TILELANG_EMULATOR_NUMERICS_SPARSITY_H_

#include <cstdint>
#include <string>

namespace tilelang::emulator {

enum class SparsePattern : uint8_t { kDense, kOneOfTwo, kTwoOfFour, kTwoPairsOfFour };

// The indices that an instruction understands: any two that differ, or growing ones. tcgen05.mma
// takes 2 before 1, too.
enum class IndexOrder : uint8_t { kAny, kGrowing, kTensorMemory };

constexpr int kIndexBits = 4;  // of a chunk

// Elements of a chunk that a row stores. The chunk is twice as long.
constexpr int StoredInChunk(SparsePattern pattern) {
  return pattern == SparsePattern::kOneOfTwo ? 1 : pattern == SparsePattern::kTwoOfFour ? 2 : 4;
}

// The place along K of the stored element `k` of a row, whose chunk has the metadata `index`.
constexpr int PlaceOfStored(SparsePattern pattern, int k, uint32_t index) {
  if (pattern == SparsePattern::kOneOfTwo) return 2 * k + (index == 0b1110);
  const int pair = pattern == SparsePattern::kTwoPairsOfFour ? 2 : 1;
  const int of_chunk = k % (2 * pair);
  const int at = static_cast<int>(index >> (2 * (of_chunk / pair)) & 3);
  return k / (2 * pair) * 4 * pair + at * pair + of_chunk % pair;
}

// Returns what is wrong with the metadata of a chunk, or "" if it has a meaning.
std::string IndexProblem(SparsePattern pattern, IndexOrder order, int row, int chunk,
                         uint32_t index);

// Calls put(row, k, place) for the stored elements of all rows. `index_of(row, chunk)` is the
// metadata of a chunk. Returns what is wrong with it, where it stops, or "".
template <typename IndexOf, typename Put>
std::string VisitPlaces(SparsePattern pattern, IndexOrder order, int rows, int stored,
                        IndexOf index_of, Put put) {
  const int per_chunk = StoredInChunk(pattern);
  for (int row = 0; row < rows; ++row) {
    for (int k = 0; k < stored; ++k) {
      const int chunk = k / per_chunk;
      const uint32_t index = index_of(row, chunk) & 0xF;
      std::string problem = k % per_chunk ? "" : IndexProblem(pattern, order, row, chunk, index);
      if (!problem.empty()) return problem;
      put(row, k, PlaceOfStored(pattern, k, index));
    }
  }
  return "";
}

// Says which lanes of a warp hold the metadata of its 16 rows, for mma.sp and wgmma.mma_async.sp.
// Each group of four lanes has the rows g and g + 8, and the `lanes` of it that the selector names
// hold their metadata. For elements of 16 and 32 bits a word has 16 bits of row g, then 16 bits of
// row g + 8. For narrower elements even lanes have 32 bits of row g, and odd lanes 32 bits of row g
// + 8.
struct WarpMetadata {
  bool halves = true;
  int lanes = 1;
  int selector = 0;

  struct Place {
    int lane;
    int shift;
  };
  constexpr int selectors() const { return 4 / lanes; }
  constexpr Place At(int row, int chunk) const {
    const int bit = kIndexBits * chunk, first = 4 * (row % 8) + selector * lanes;
    if (halves) return {first + bit / 16, 16 * (row / 8) + bit % 16};
    return {first + row / 8 + 2 * (bit / 32), bit % 32};
  }
};

// Returns the metadata of a warp for rows of `stored` elements of `element_bits` bits.
constexpr WarpMetadata MetadataOfWarp(SparsePattern pattern, int element_bits, int stored) {
  return {element_bits >= 16, stored / StoredInChunk(pattern) * kIndexBits / 16, 0};
}

}  // namespace tilelang::emulator

#endif  // TILELANG_EMULATOR_NUMERICS_SPARSITY_H_
