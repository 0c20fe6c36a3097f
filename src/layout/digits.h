/*!
 * Mixed-radix linear forms: the arithmetic under every layout.
 *
 * A coordinate i is split into digits, fastest first: d0 = i % e0, d1 = (i / e0) % e1, ... ; the
 * last digit takes what remains. The form's value is the sum of digit * stride. Extents need not
 * be powers of two, and their product may exceed the coordinate's range (a padded range).
 */
#ifndef TILELANG_LAYOUT_DIGITS_H_
#define TILELANG_LAYOUT_DIGITS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace tilelang::layout {

struct Digit {
  int64_t extent;
  int64_t stride;
  bool operator==(const Digit&) const = default;
};

/*! Fastest digit first. */
using Digits = std::vector<Digit>;

/*! One digit with a stride in each of two forms. */
struct DigitPair {
  int64_t extent;
  int64_t first;
  int64_t second;
};

/*! Product of the extents. */
int64_t DigitsSize(const Digits& digits);

/*! Value of the form at `index`. */
int64_t DigitsAt(const Digits& digits, int64_t index);

/*! Largest value of the form over [0, extent); strides are non-negative. */
int64_t DigitsMax(const Digits& digits, int64_t extent);

/*!
 * The unique shortest form of the same function over [0, extent): neighbours that continue each
 * other are merged, digits of extent 1 dropped, the last extent reduced to what is reached.
 */
Digits Canonical(const Digits& digits, int64_t extent);

/*! The canonical form whose value at i is values[i], or nothing. values[0] must be 0. */
std::optional<Digits> RecoverDigits(std::span<const int64_t> values);

/*!
 * Splits two forms over one range into common digits. Nothing when the radices do not nest
 * (6 against 4, say).
 */
std::optional<std::vector<DigitPair>> Refine(const Digits& a, const Digits& b);

/*! The form a(i) + b(i), or nothing when the radices do not nest. */
std::optional<Digits> AddDigits(const Digits& a, const Digits& b);

/*!
 * Composes `outer` after the sum of `inner` forms plus `offset`: outer(offset + sum inner_k(i_k)),
 * without carries between outer's digits. Returns the composed forms (one per inner form) and
 * the value at zero; nothing when radices do not divide, a carry can happen, or the inner values
 * leave outer's range.
 */
std::optional<std::pair<std::vector<Digits>, int64_t>> ComposeDigits(
    const Digits& outer, const std::vector<Digits>& inner, int64_t offset);

}  // namespace tilelang::layout

#endif  // TILELANG_LAYOUT_DIGITS_H_
