/*!
 * Layouts: maps from logical coordinates to one integer (an element, a byte, a thread, a lane).
 */
#ifndef TILELANG_LAYOUT_LAYOUT_H_
#define TILELANG_LAYOUT_LAYOUT_H_

#include <tvm/ffi/any.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/object.h>
#include <tvm/ffi/optional.h>
#include <tvm/ffi/string.h>

#include <cstdint>
#include <string>
#include <vector>

#include "layout/digits.h"
#include "layout/formula.h"
#include "layout/int_tuple.h"
#include "layout/swizzle.h"

namespace tilelang::layout {

using Coord = std::vector<int64_t>;

inline Coord ToCoord(const ffi::Shape& shape) { return Coord(shape.begin(), shape.end()); }
/*! Row-major linear index of a coordinate. */
int64_t Linearize(const Coord& shape, const Coord& coord);
/*! The coordinate at a row-major linear index. */
Coord Delinearize(const Coord& shape, int64_t index);
int64_t Product(const Coord& shape);
/*! Prints as `(a, b)`. */
std::string CoordToString(const Coord& coord);

/*!
 * A map from coordinates of the logical shape `extents` (row-major, last dimension fastest) to
 * an integer:  swizzle(offset + tree(coordinate)),  or an entry of `table`.
 *
 * The tree (shape, stride) has one top-level entry for each dimension ("separable"), or a single
 * one that runs over the row-major linear index ("flat"; also every rank-1 layout). Its size may
 * exceed the logical extent (padded range).
 */
class LayoutNode : public ffi::Object {
 public:
  ffi::Shape extents;
  ffi::Any shape;
  ffi::Any stride;
  int64_t offset = 0;
  int64_t swizzle_bits = 0;
  int64_t swizzle_base = 0;
  int64_t swizzle_shift = 0;
  /*! The values in row-major order, where no tree gives them. */
  ffi::Optional<ffi::Shape> table;
  /*! The same as the table, where the function that it comes from has an expression. */
  ffi::Optional<Formula> formula;

  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindTreeNode;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("tl.Layout", LayoutNode, ffi::Object);

  Coord Extents() const { return ToCoord(extents); }
  size_t Rank() const { return extents.size(); }
  /*! Number of coordinates. */
  int64_t Size() const { return extents.Product(); }
  /*! Largest value plus one. */
  int64_t Cosize() const;
  bool IsTable() const { return table.has_value(); }
  /*! The tree runs over the linear index of a shape of several dimensions. */
  bool IsFlat() const { return !IsTable() && Rank() != 1 && Forms().size() == 1; }
  /*! A tree without swizzle. */
  bool IsLinear() const { return !IsTable() && swizzle_bits == 0; }
  /*! The tree's size is the shape's: no padded range. */
  bool IsExact() const;
  Swizzle GetSwizzle() const { return {swizzle_bits, swizzle_base, swizzle_shift}; }

  /*! The tree flattened: one digit list for each dimension, or one over the linear index. */
  const std::vector<Digits>& Forms() const;
  /*! The value at a coordinate; raises BoundsError outside the shape. */
  int64_t Forward(const Coord& coord) const;
  /*! The value at a row-major linear index. */
  int64_t At(int64_t index) const;
  /*! All values in row-major order. */
  std::vector<int64_t> Tabulate() const;
  /*! No two coordinates share a value. */
  bool IsInjective() const;
  std::string ToString() const;

 private:
  int64_t Unswizzled(const Coord& coord) const;
  mutable std::vector<Digits> forms_;    // cache of Forms()
  mutable std::vector<int64_t> values_;  // of At(), once it is asked often
  mutable int lookups_ = 0;
  mutable int64_t cosize_ = 0;  // of Cosize(), where it takes all values
};

class Layout : public ffi::ObjectRef {
 public:
  /*! A tree; raises LayoutError unless shape and stride are congruent and non-negative. */
  Layout(const IntTuple& shape, const IntTuple& stride, int64_t offset = 0, Swizzle swizzle = {});

  explicit Layout(ffi::ObjectPtr<LayoutNode> node) : ffi::ObjectRef(std::move(node)) {}

  /*! Row-major order of `extents`. */
  static Layout RowMajor(const Coord& extents);
  /*! One form for each dimension, or one over the linear index. */
  static Layout FromForms(const Coord& extents, const std::vector<Digits>& forms,
                          int64_t offset = 0, Swizzle swizzle = {});
  /*! Recovers a separable, flat or swizzled form from its values; else keeps them, and `formula`.
   */
  static Layout FromValues(const Coord& extents, const std::vector<int64_t>& values,
                           ffi::Optional<Formula> formula = {});

  /*! The same map with the dimensions in another order. */
  Layout Transpose(const std::vector<size_t>& axes) const;
  /*! The map restricted to [begin, begin + extents), coordinates counted from begin. */
  Layout Slice(const Coord& begin, const Coord& extents) const;
  /*! The same values under another shape of equal size (row-major order kept). */
  Layout Reshape(const Coord& extents) const;
  /*!
   * `copies` of the map after each other, numbered by a further, first dimension. Each begins at a
   * multiple of the swizzle's period.
   */
  Layout Stack(int64_t copies) const;
  Layout WithSwizzle(Swizzle swizzle) const;
  Layout WithOffset(int64_t offset) const;
  /*! Equality as functions: same extents, same value everywhere. */
  bool SameMap(const Layout& other) const;

  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(Layout, ffi::ObjectRef, LayoutNode);
};

/*! A form as a tree entry: a leaf for one digit, a tuple (slowest first) for several. */
std::pair<IntTuple, IntTuple> EntryOf(const Digits& digits);

/*! The canonical forms of a tree layout (see Canonical), one for each dimension. */
std::vector<Digits> CanonicalForms(const LayoutNode* layout);

/*!
 * The separable forms of a linear layout: its own, or a flat form split over the dimensions.
 * Nothing where the radices do not nest, or for swizzles and tables.
 */
std::optional<std::vector<Digits>> SeparableForms(const LayoutNode* layout);

/*! a + b at every coordinate of the common extents (linear where the radices nest). */
Layout AddLayouts(const Layout& a, const Layout& b);

}  // namespace tilelang::layout

#endif  // TILELANG_LAYOUT_LAYOUT_H_
