// Elementwise work of threads on a tile of tensor memory, some columns at a time.
#ifndef TILELANG_LOWER_COLUMN_PIECES_H_
#define TILELANG_LOWER_COLUMN_PIECES_H_

#include <vector>

#include "ir/tile_op.h"

namespace tilelang::lower {

// What a T.Parallel loop over all elements of fragment `c`, held in `tmem`, does to it, with a
// piece of the columns after another in registers: a thread has few of them beside other tiles.
// Rescaling the result of attention is such a loop. Where a condition on the row chooses what it
// changes, or where it multiplies by a factor of the row, which changes nothing if it is 1, warps
// whose rows it changes nothing of skip the loads and stores, too. Nothing where the statement is
// no such loop.
std::vector<ir::Stmt> InColumnPieces(const ir::Stmt& s, const ir::Buffer& c,
                                     const ir::Buffer& tmem);

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_COLUMN_PIECES_H_
