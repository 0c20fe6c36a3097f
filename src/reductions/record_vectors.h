// Records along rows: the last dimension of a rolled loop as vectors of a thread.
#ifndef TILELANG_REDUCTIONS_RECORD_VECTORS_H_
#define TILELANG_REDUCTIONS_RECORD_VECTORS_H_

#include "reductions/rolled_loop.h"

namespace tilelang::reductions {

// Elements of 16 bytes of the narrowest memory that follows `var`.
int64_t VectorOf(const ir::Stmt& body, const ir::Var& var);

// How many running records of a loop's last variable a thread may have side by side, those of a
// vector of 16 bytes; 1 where none of its results is a record along that variable.
int64_t RecordsOfVector(const RolledLoop& loop);

// The loop with its last variable, whose extent `vector` divides, divided in two, of which the
// inner one goes over `vector` elements: their running records are those of a thread, and combine
// in registers.
RolledLoop DivideByVectors(RolledLoop loop, int64_t vector);

// `body` without its loads from memory: they go to tiles in registers, of the shape of `vars`,
// by a loop of its own in `stmts`, so that they are vectors. `inside`: where there are elements.
ir::Stmt LoadTileFirst(const ir::Stmt& body, const ir::Array<ir::Var>& vars,
                       const ir::Array<ir::Expr>& extents, const ir::Expr& inside,
                       std::vector<ir::Stmt>* stmts);

}  // namespace tilelang::reductions

#endif  // TILELANG_REDUCTIONS_RECORD_VECTORS_H_
