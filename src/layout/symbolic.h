/*! Layouts as index expressions of the IR. */
#ifndef TILELANG_LAYOUT_SYMBOLIC_H_
#define TILELANG_LAYOUT_SYMBOLIC_H_

#include <vector>

#include "ir/expr.h"
#include "layout/fragment.h"

namespace tilelang::layout {

/*!
 * The layout's value at symbolic coordinates, in the coordinates' integer type. The coordinates
 * must lie inside the shape. Raises UnsupportedError for tables, which have no closed form.
 */
ir::Expr ForwardExpr(const Layout& layout, const std::vector<ir::Expr>& coord);

/*! The thread that holds an element; `rep` picks the copy (default: the first). */
ir::Expr ThreadExpr(const Fragment& fragment, const std::vector<ir::Expr>& coord,
                    const ir::Expr& rep = ir::Expr());

/*! The element's index in its thread's local array. */
ir::Expr RegExpr(const Fragment& fragment, const std::vector<ir::Expr>& coord);

/*! What a slot holds, symbolically. */
struct SlotExprs {
  std::vector<ir::Expr> coord;
  ir::Expr rep;
  /*! Whether the slot holds an element at all; null where every slot of the ranges does. */
  ir::Expr valid;
};

/*!
 * The element in slot (thread, reg); thread in [0, num_threads) of the CTA, reg in
 * [0, RegsPerThread()). Raises UnsupportedError where the inverse has no closed form.
 */
SlotExprs InverseExprs(const Fragment& fragment, const ir::Expr& thread, const ir::Expr& reg,
                       int64_t num_threads);

}  // namespace tilelang::layout

#endif  // TILELANG_LAYOUT_SYMBOLIC_H_
