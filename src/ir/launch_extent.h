// Extents of a grid that the host makes empty for calls of another launch.
#ifndef TILELANG_IR_LAUNCH_EXTENT_H_
#define TILELANG_IR_LAUNCH_EXTENT_H_

#include "ir/expr.h"

namespace tilelang::ir {

// An extent of a grid as its blocks know it: where there are some.
Expr ExtentInside(const Expr& extent);
// The extents of a grid as its blocks know them.
Array<Expr> ExtentsInside(const Array<Expr>& grid);
// The extent `inside`, empty where `extent` is so by its condition.
Expr EmptyLike(const Expr& extent, const Expr& inside);
// The extent `inside` of a grid of one dimension, empty where the grid `extents` is so.
Expr EmptyLike(const Array<Expr>& extents, Expr inside);

}  // namespace tilelang::ir

#endif  // TILELANG_IR_LAUNCH_EXTENT_H_
