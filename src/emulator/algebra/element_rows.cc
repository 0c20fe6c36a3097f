#include "emulator/algebra/element_rows.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "emulator/instructions/elementwise.h"

namespace tilelang::emulator {
namespace {

// Words of a vector of the host: those of two elements.
constexpr int kWide = 2 * kParts;
using Words = std::array<uint32_t, kWide>;

constexpr Words Twice(const uint32_t (&of)[kParts]) {
  Words words{};
  for (size_t i = 0; i < kWide; ++i) words[i] = of[i % kParts];
  return words;
}
constexpr Words kWideModuli = Twice(kModuli);
constexpr Words kWideInverses = Twice(kNegativeInverses);

struct AddWord {
  uint32_t operator()(uint32_t a, uint32_t b, size_t i) const {
    const uint32_t sum = a + b;
    return std::min(sum, sum - kWideModuli[i]);  // unsigned: one of them may have wrapped around
  }
};

struct MultiplyWord {
  uint32_t operator()(uint32_t a, uint32_t b, size_t i) const {
    const uint64_t t = uint64_t{a} * b;
    const uint32_t m = static_cast<uint32_t>(t) * kWideInverses[i];
    const auto r = static_cast<uint32_t>((t + uint64_t{m} * kWideModuli[i]) >> 32);
    return std::min(r, r - kWideModuli[i]);
  }
};

// Applies an operation to the parts that both operands have. Returns the bits of all operands that
// are set anywhere.
template <typename F>
[[gnu::always_inline]] inline uint32_t CombineWords(const uint32_t* __restrict a,
                                                    const uint32_t* __restrict b, int pairs,
                                                    uint32_t* __restrict d) {
  Words seen{};
  for (int k = 0; k < pairs; ++k, a += kWide, b += kWide, d += kWide) {
#pragma GCC ivdep
    for (size_t i = 0; i < kWide; ++i) {
      const uint32_t bits = a[i] | b[i];
      const uint32_t result = F()(a[i], b[i], i);
      d[i] = bits & kAbsentPart ? kAbsentPart : result;
      seen[i] |= bits;
    }
  }
  uint32_t all = 0;
  for (uint32_t each : seen) all |= each;
  return all;
}

using CombineFunction = uint32_t (*)(const uint32_t*, const uint32_t*, int, uint32_t*);

template <typename F>
uint32_t CombineBase(const uint32_t* a, const uint32_t* b, int pairs, uint32_t* d) {
  return CombineWords<F>(a, b, pairs, d);
}
template <typename F>
TL_WIDE_TARGET uint32_t CombineWide(const uint32_t* a, const uint32_t* b, int pairs, uint32_t* d) {
  return CombineWords<F>(a, b, pairs, d);
}

// Elements with twists, and those of which one has residues and the other has exponents, go one by
// one.
template <typename F>
void Combine(const Element* a, const Element* b, int count, Element* results,
             Element (*single)(const Element&, const Element&)) {
  static const CombineFunction combine = HasWideTarget() ? CombineWide<F> : CombineBase<F>;
  const int even = count & ~1;
  const uint32_t seen = combine(a->part, b->part, even / 2, results->part);
  if (seen & (kTwistBit | kAbsentPart)) {
    for (int i = 0; i < even; ++i) {
      const bool lost = !results[i].known() && a[i].known() && b[i].known();
      if (lost || (seen & kTwistBit)) results[i] = single(a[i], b[i]);
    }
  }
  if (even != count) results[even] = single(a[even], b[even]);
}

constexpr int kMostInverted = 64;
// Fewer different numbers are inverted one by one.
constexpr int kFewRuns = 4;

constexpr uint32_t One(int part) {
  return static_cast<uint32_t>((uint64_t{1} << 32) % kModuli[part]);
}
constexpr Element kOne{{One(0), One(1), One(2), One(3)}};

int CountRuns(const Element* a, int count) {
  int runs = 1;
  for (int i = 1; i < count; ++i) runs += std::memcmp(&a[i], &a[i - 1], sizeof *a) != 0;
  return runs;
}

// Inverts a power of two of elements by one inversion of their product, and multiplications.
// Returns false if that has no inverse: exponents are modulo a product of two primes.
bool InvertTogether(const Element* a, int count, Element* results) {
  // The products of `count` / 2^level elements each other.
  thread_local Element products[2 * kMostInverted], inverses[2 * kMostInverted];
  for (int i = 0; i < count; ++i) {
    for (int part = 0; part < kParts; ++part) {
      const uint32_t own = a[i].part[part];
      products[i].part[part] = own == 0 || (own & kAbsentPart) ? kOne.part[part] : own;
    }
  }
  int first = 0;
  for (int width = count; width > 1; first += width, width /= 2) {
    const Element* level = products + first;
    MultiplyRow(level, level + width / 2, width / 2, products + first + width);
  }
  inverses[first] = Invert(products[first]);
  if (std::memcmp(&kOne, &(results[0] = Multiply(products[first], inverses[first])), sizeof kOne)) {
    return false;
  }
  for (int width = 2; width <= count; width *= 2) {
    const Element *level = products + first - width, *above = inverses + first;
    first -= width;
    MultiplyRow(above, level + width / 2, width / 2, inverses + first);
    MultiplyRow(above, level, width / 2, inverses + first + width / 2);
  }
  for (int i = 0; i < count; ++i) {
    for (int part = 0; part < kParts; ++part) {
      const uint32_t own = a[i].part[part];
      results[i].part[part] = own == 0 || (own & kAbsentPart) ? own : inverses[i].part[part];
    }
  }
  return true;
}

}  // namespace

void AddRow(const Element* a, const Element* b, int count, Element* results) {
  Combine<AddWord>(a, b, count, results, Add);
}

void MultiplyRow(const Element* a, const Element* b, int count, Element* results) {
  Combine<MultiplyWord>(a, b, count, results, Multiply);
}

void NegateRow(const Element* a, int count, Element* results) {
  for (int i = 0; i < count; ++i) results[i] = Negate(a[i]);
}

void InvertRow(const Element* a, int count, Element* results) {
  uint32_t twists = 0;
  for (int i = 0; i < count; ++i) {
    for (uint32_t part : a[i].part) twists |= part & kTwistBit;
  }
  const bool few = count > kMostInverted || CountRuns(a, count) <= kFewRuns;
  if (!few && twists == 0 && InvertTogether(a, count, results)) return;
  for (int i = 0; i < count; ++i) {
    const bool again = i != 0 && std::memcmp(&a[i], &a[i - 1], sizeof *a) == 0;
    results[i] = again ? results[i - 1] : Invert(a[i]);
  }
}

void ElementsOfFloats(const float* values, int count, Element* results) {
  for (int i = 0; i < count; ++i) {
    const bool again = i != 0 && std::memcmp(values + i, values + i - 1, sizeof *values) == 0;
    results[i] = again ? results[i - 1] : ElementOfFloat(values[i]);
  }
}

}  // namespace tilelang::emulator
