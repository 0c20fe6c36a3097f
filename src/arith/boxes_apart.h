// Decides whether the turns of a loop have boxes of their own, of more than one dimension.
#ifndef TILELANG_ARITH_BOXES_APART_H_
#define TILELANG_ARITH_BOXES_APART_H_

#include <vector>

#include "arith/apart.h"

namespace tilelang::arith {

// A box moves from turn to turn by its corner.
struct MovingBox {
  ir::Array<ir::Expr> corner;
  ir::Array<int64_t> extents;
};

// Returns whether boxes of two different turns never have an element in common: for each choice of
// values of the other variables, two turns in which all `conditions` hold differ in some dimension
// by at least its extent. All choices are tried if the corner and the conditions depend on nothing
// else and there are not too many; a dimension that depends on more is ignored. False means that
// nothing is known.
//
// One dimension alone is not enough for the tiles of T.Persistent: their rows and columns are
// quotients and remainders of one number.
bool AreBoxesApart(const MovingBox& box, const Turns& turns, const std::vector<Turns>& others,
                   const ir::Array<ir::Expr>& conditions);

}  // namespace tilelang::arith

#endif  // TILELANG_ARITH_BOXES_APART_H_
