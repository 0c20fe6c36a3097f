/*!
 * Hierarchical integers: an integer, or a list of hierarchical integers.
 *
 * A pair of congruent tuples (shape, stride) writes a layout as in CuTe, but read row-major: at
 * every level the *last* entry varies fastest, as TileLang's logical indices do.
 */
#ifndef TILELANG_LAYOUT_INT_TUPLE_H_
#define TILELANG_LAYOUT_INT_TUPLE_H_

#include <tvm/ffi/any.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tilelang::layout {

namespace ffi = tvm::ffi;

struct IntTuple {
  int64_t value = 0;
  std::vector<IntTuple> items;
  bool is_leaf = true;

  IntTuple() = default;
  IntTuple(int64_t leaf) : value(leaf) {}  // NOLINT: integers are tuples
  explicit IntTuple(std::vector<IntTuple> list) : items(std::move(list)), is_leaf(false) {}

  /*! Number of top-level entries; 1 for a leaf. */
  size_t Rank() const { return is_leaf ? 1 : items.size(); }
  /*! Top-level entry `i`; a leaf is its own only entry. */
  const IntTuple& At(size_t i) const { return is_leaf ? *this : items[i]; }
  /*! Product of all leaves. */
  int64_t Product() const;
  /*! Leaves from the fastest (last) to the slowest (first). */
  std::vector<int64_t> FastestFirst() const;
  bool IsCongruent(const IntTuple& other) const;
  std::string ToString() const;

  /*! From an int or a nested array of ints; raises LayoutError otherwise. */
  static IntTuple FromAny(const ffi::Any& any);
  ffi::Any ToAny() const;
};

}  // namespace tilelang::layout

#endif  // TILELANG_LAYOUT_INT_TUPLE_H_
