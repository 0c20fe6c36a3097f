// T.copy: which mechanism moves a tile, and the SIMT one.
#ifndef TILELANG_OP_COPY_H_
#define TILELANG_OP_COPY_H_

#include "op/context.h"

namespace tilelang::op {

// The dimensions of a region that move: those of extent other than 1.
struct MovingDims {
  std::vector<size_t> dims;
  Array<Expr> extents;
};
MovingDims Moving(const Region& region);

// A loop over the tiles of a copy; `move` makes a statement of the element of dst, a Load, and the
// value converted to its type.
Stmt CopyLoop(const ir::CopyNode* op,
              const std::function<Stmt(const Expr& target, const Expr& value)>& move);
// A copy or a fill done by threads, as a parallel loop (or, between arrays private to a thread,
// as serial loops).
Stmt ExpandCopy(const ir::CopyNode* op);
Stmt ExpandFill(const ir::FillNode* op);

}  // namespace tilelang::op

#endif  // TILELANG_OP_COPY_H_
