/*!
 * The algebra of shape:stride layouts, after CuTe, with coordinates read row-major.
 *
 * Reading row-major mirrors CuTe's tuples: the fast part of a result comes *last*, so
 * logical_divide gives (rest, tile) and logical_product gives (copies, block). A result that the
 * algebra cannot write as a tree raises LayoutError naming both layouts; no rounding, ever.
 */
#ifndef TILELANG_LAYOUT_ALGEBRA_H_
#define TILELANG_LAYOUT_ALGEBRA_H_

#include <optional>
#include <vector>

#include "layout/layout.h"

namespace tilelang::layout {

/*! The shortest rank-1 layout with the same value at every linear index. */
Layout Coalesce(const Layout& layout);

/*! outer(inner(coordinate)): inner's values are linear indices of outer. Keeps inner's shape. */
Layout Composition(const Layout& outer, const Layout& inner);
/*! The same, or nothing where the extents do not divide. */
std::optional<Layout> TryComposition(const Layout& outer, const Layout& inner);

/*!
 * The layout C whose values, added to the values of `layout`, reach every integer of [0, size)
 * once.
 */
Layout Complement(const Layout& layout, int64_t size);

/*! R with layout(R(i)) == i for every i below R's size, the longest such. */
Layout RightInverse(const Layout& layout);

/*! R with R(layout(i)) == i; the layout must be injective. */
Layout LeftInverse(const Layout& layout);

/*! The modes of several layouts side by side, as one layout's top level. */
Layout Concatenate(const std::vector<Layout>& layouts);

/*! (copies, block): `block` repeated over a complement of itself in the order of `copies`. */
Layout LogicalProduct(const Layout& block, const Layout& copies);

/*! (rest, tile): `layout` rearranged so that the last mode runs inside a tile. */
Layout LogicalDivide(const Layout& layout, const Layout& tiler);

/*! Each dimension divided by its own tile extent: ((rest0, tile0), (rest1, tile1), ...). */
Layout LogicalDivideDims(const Layout& layout, const Coord& tile);
/*! ((rest0, rest1, ...), (tile0, tile1, ...)). */
Layout ZippedDivide(const Layout& layout, const Coord& tile);
/*! (rest0, rest1, ..., (tile0, tile1, ...)). */
Layout TiledDivide(const Layout& layout, const Coord& tile);

}  // namespace tilelang::layout

#endif  // TILELANG_LAYOUT_ALGEBRA_H_
