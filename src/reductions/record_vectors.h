// Records along rows: the last dimension of a rolled loop as vectors of a thread.
#ifndef TILELANG_REDUCTIONS_RECORD_VECTORS_H_
#define TILELANG_REDUCTIONS_RECORD_VECTORS_H_

#include "reductions/rolled_loop.h"

namespace tilelang::reductions {

// Elements of 16 bytes of the narrowest memory that follows `var`.
int64_t VectorOf(const ir::Stmt& body, const ir::Var& var);

// Returns how many running records along the last variable of a loop a thread may hold: the
// elements of a vector of 16 bytes, or 1 if no result is a record along that variable.
int64_t RecordsOfVector(const RolledLoop& loop);

// Splits the last variable of a loop, whose extent `vector` divides; the inner loop covers `vector`
// elements. A thread holds their running records and combines them in registers.
RolledLoop DivideByVectors(RolledLoop loop, int64_t vector);

// Returns whether choices (T.if_then_else) decide on loads from memory, and all of them change
// along `var`. A thread then loads such elements one by one, so it pays to load all of them as
// vectors.
bool ChoosesLoadsAlong(const ir::Stmt& body, const ir::Var& var);

// `body` without its loads from memory: they go to tiles in registers, of the shape of `vars`,
// by a loop of its own in `stmts`, so that they are vectors. `inside`: where there are elements.
ir::Stmt LoadTileFirst(const ir::Stmt& body, const ir::Array<ir::Var>& vars,
                       const ir::Array<ir::Expr>& extents, const ir::Expr& inside,
                       std::vector<ir::Stmt>* stmts);

}  // namespace tilelang::reductions

#endif  // TILELANG_REDUCTIONS_RECORD_VECTORS_H_
