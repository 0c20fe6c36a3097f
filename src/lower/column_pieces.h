// Elementwise work of threads on a tile of tensor memory, some columns at a time.
#ifndef TILELANG_LOWER_COLUMN_PIECES_H_
#define TILELANG_LOWER_COLUMN_PIECES_H_

#include <vector>

#include "ir/tile_op.h"

namespace tilelang::lower {

// Returns the statements of a T.Parallel loop over all elements of fragment `c`, held in `tmem`,
// with one piece of the columns after another in registers. A thread has few registers beside other
// tiles. Rescaling the result of attention is such a loop. Some loops change nothing in a row if a
// condition on the row does not hold, or if a factor of the row is 1. Warps whose rows do not
// change then skip the loads and stores. Returns nothing if the statement is no such loop.
std::vector<ir::Stmt> InColumnPieces(const ir::Stmt& s, const ir::Buffer& c,
                                     const ir::Buffer& tmem);

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_COLUMN_PIECES_H_
