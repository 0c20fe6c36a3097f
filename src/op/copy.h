// T.copy: which mechanism moves a tile, and the SIMT one.
#ifndef TILELANG_OP_COPY_H_
#define TILELANG_OP_COPY_H_

#include "ir/copy_operator.h"
#include "op/context.h"

namespace tilelang::op {

// The dimensions of a region that move, that is, dimensions of extent other than 1.
struct MovingDims {
  std::vector<size_t> dims;
  Array<Expr> extents;
};
MovingDims Moving(const Region& region);

// Says who does the work on a tile: the threads share its elements, or each thread does all of
// them.
enum class TileWork { kShared, kOfEachThread };

// A loop over the tiles of a copy; `move` makes a statement of the element of dst, a Load, and the
// value converted to its type.
Stmt CopyLoop(const ir::CopyNode* op,
              const std::function<Stmt(const Expr& target, const Expr& value)>& move,
              TileWork work = TileWork::kShared);
// A copy or a fill done by threads: a parallel loop, or serial loops that each thread runs. What
// goes to an array private to a thread is always the work of each thread.
Stmt ExpandCopy(const ir::CopyNode* op, TileWork work = TileWork::kShared);
Stmt ExpandFill(const ir::FillNode* op, TileWork work = TileWork::kShared);
// Serial loops in place of a parallel one, for each thread to run.
Stmt RunByEachThread(const ir::ParallelForNode* loop);

}  // namespace tilelang::op

#endif  // TILELANG_OP_COPY_H_
