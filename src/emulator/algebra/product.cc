#include "emulator/algebra/product.h"

#include <algorithm>
#include <numeric>

#include "emulator/instructions/elementwise.h"

namespace tilelang::emulator {
namespace {

constexpr int kMostColumns = 256;
// Products below 2^60 whose sum Reduced takes.
constexpr int kTerms = 8;

// One part of the sums of a row.
struct PartTask {
  const Element* a;
  const uint32_t* b;
  const int32_t* places;
  int part, k, stride, columns;
};

[[gnu::always_inline]] inline void SumPart(const PartTask& task, uint32_t* sums) {
  uint64_t total[kMostColumns];
  const uint32_t modulus = kModuli[task.part], inverse = kNegativeInverses[task.part];
  for (int first = 0; first < task.k; first += kTerms) {
    std::fill_n(total, task.columns, 0);
    const int last = std::min(first + kTerms, task.k);
    for (int k = first; k < last; ++k) {
      const uint64_t factor = task.a[k].part[task.part];
      if (factor == 0) continue;
      const uint32_t* line = task.b + static_cast<size_t>(task.places[k]) * task.stride;
#pragma GCC ivdep
      for (int j = 0; j < task.columns; ++j) total[j] += factor * line[j];
    }
#pragma GCC ivdep
    for (int j = 0; j < task.columns; ++j) {
      const uint32_t m = static_cast<uint32_t>(total[j]) * inverse;
      auto sum = static_cast<uint32_t>((total[j] + uint64_t{m} * modulus) >> 32);
      sum = std::min(sum, sum - modulus);  // unsigned: one of them has wrapped around
      sum = std::min(sum, sum - modulus);
      sum += sums[j];
      sums[j] = std::min(sum, sum - modulus);
    }
  }
}

void SumPartBase(const PartTask& task, uint32_t* sums) { SumPart(task, sums); }
TL_WIDE_TARGET void SumPartWide(const PartTask& task, uint32_t* sums) { SumPart(task, sums); }

}  // namespace

void ElementProduct::Start(int n, int lines) {
  n_ = n;
  lines_ = lines;
  for (auto& part : b_) part.resize(static_cast<size_t>(n) * static_cast<size_t>(lines));
  b_lacks_.assign(static_cast<size_t>(n), 0);
}

void ElementProduct::StartA(int m, int k) {
  m_ = m;
  k_ = k;
  const size_t size = static_cast<size_t>(m) * static_cast<size_t>(k);
  a_.resize(size);
  a_lacks_.assign(static_cast<size_t>(m), 0);
  places_.resize(size);
  for (int row = 0; row < m; ++row) {
    std::iota(places_.begin() + row * k, places_.begin() + (row + 1) * k, 0);
  }
}

Element ElementProduct::Stored(const Element& element, uint8_t* lacks) {
  if (!element.known()) {
    *lacks |= kAll;
    return Element{};
  }
  Element result = Untwisted(WithResidues(element));
  if (!result.has_exponents()) {
    *lacks |= kExponents;
    result.part[2] = result.part[3] = 0;
  }
  for (int i = kResidues; i < kParts; ++i) result.part[i] &= ~kTwistBit;
  return result;
}

void ElementProduct::SetA(int row, int k, const Element& element) {
  a_[static_cast<size_t>(row * k_ + k)] = Stored(element, &a_lacks_[static_cast<size_t>(row)]);
}

void ElementProduct::SetB(int column, int k, const Element& element) {
  const Element stored = Stored(element, &b_lacks_[static_cast<size_t>(column)]);
  const size_t place = static_cast<size_t>(k * n_ + column);
  for (int i = 0; i < kParts; ++i) b_[i][place] = stored.part[i];
}

void ElementProduct::ScaleA(int row, int first, int last, const Element& scale) {
  const Element factor = Stored(scale, &a_lacks_[static_cast<size_t>(row)]);
  for (int k = first; k < last; ++k) {
    Element& element = a_[static_cast<size_t>(row * k_ + k)];
    element = Multiply(element, factor);
  }
}

void ElementProduct::ScaleB(int column, int first, int last, const Element& scale) {
  const Element factor = Stored(scale, &b_lacks_[static_cast<size_t>(column)]);
  for (int k = first; k < last; ++k) {
    for (int i = 0; i < kParts; ++i) {
      uint32_t& part = b_[i][static_cast<size_t>(k * n_ + column)];
      part = Reduced(uint64_t{part} * factor.part[i], i);
    }
  }
}

void ElementProduct::Row(int row, int first_column, int columns, Element* sums) const {
  static const auto sum_part = HasWideTarget() ? SumPartWide : SumPartBase;
  const uint8_t lacks = a_lacks_[static_cast<size_t>(row)];
  const uint8_t* column_lacks = &b_lacks_[static_cast<size_t>(first_column)];
  if (lacks & kAll) {
    std::fill_n(sums, columns, kUnknownElement);
    return;
  }
  const bool exponents =
      !(lacks & kExponents) &&
      !std::all_of(column_lacks, column_lacks + columns, [](uint8_t lack) { return lack != 0; });
  uint32_t products[kParts][kMostColumns] = {};
  for (int i = 0; i < (exponents ? kParts : kResidues); ++i) {
    sum_part({&a_[static_cast<size_t>(row * k_)], b_[i].data() + first_column, PlacesOf(row), i, k_,
              n_, columns},
             products[i]);
  }
  for (int j = 0; j < columns; ++j) {
    Element product;
    for (int i = 0; i < kParts; ++i) product.part[i] = products[i][j];
    if (!exponents || column_lacks[j] != 0) product.part[2] = product.part[3] = kAbsentPart;
    sums[j] = column_lacks[j] & kAll ? kUnknownElement : Add(sums[j], product);
  }
}

}  // namespace tilelang::emulator
