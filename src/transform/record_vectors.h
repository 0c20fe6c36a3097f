// Records along rows: the last dimension of a rolled loop as vectors of a thread.
#ifndef TILELANG_TRANSFORM_RECORD_VECTORS_H_
#define TILELANG_TRANSFORM_RECORD_VECTORS_H_

#include "transform/rolled_loop.h"

namespace tilelang::transform {

// Elements of 16 bytes of the narrowest memory that follows `var`.
int64_t VectorOf(const ir::Stmt& body, const ir::Var& var);

// The loop with its last variable divided in two, of which the inner one goes over a vector of 16
// bytes. Then the running records of a vector are those of a thread, and combine in registers. The
// same loop where none of its results is a record along that variable, or vectors do not divide
// its extent.
RolledLoop DivideByVectors(RolledLoop loop);

// `body` without its loads from memory: they go to tiles in registers, of the shape of `vars`,
// by a loop of its own in `stmts`, so that they are vectors. `inside`: where there are elements.
ir::Stmt LoadTileFirst(const ir::Stmt& body, const ir::Array<ir::Var>& vars,
                       const ir::Array<ir::Expr>& extents, const ir::Expr& inside,
                       std::vector<ir::Stmt>* stmts);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_RECORD_VECTORS_H_
