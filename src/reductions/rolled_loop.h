// Reductions over iteration spaces of any extent: a tile of running values in registers, loops
// that go through the data tile by tile, and one exchange between threads at the end.
#ifndef TILELANG_REDUCTIONS_ROLLED_LOOP_H_
#define TILELANG_REDUCTIONS_ROLLED_LOOP_H_

#include <functional>
#include <limits>
#include <vector>

#include "ir/tile_op.h"
#include "op/reduce_values.h"

namespace tilelang::reductions {

// One result to which the iterations of a loop are reduced.
struct RolledResult {
  op::Reduction reduction;
  // Says for each loop variable whether there is a result for each of its values.
  std::vector<bool> kept;
  // Stand for the running values in the body of the loop, indexed by the variables of the tile: one
  // for each field of a record.
  std::vector<ir::Buffer> running;
  // Takes in `values`, the result of the iterations at `place`: its entries for kept variables say
  // of which.
  std::function<ir::Stmt(const std::vector<ir::Expr>& place, const std::vector<ir::Expr>& values)>
      conclude;
};

struct RolledLoop {
  ir::Array<ir::Var> vars;
  ir::Array<ir::Expr> extents;
  // The variables of the tile: the place of an iteration in it.
  ir::Array<ir::Var> tile_vars;
  ir::Stmt body;
  std::vector<RolledResult> results;
  ir::Span span;
  int64_t threads = 1;
  // Values of variables along which nothing is kept that one turn takes at most.
  int64_t chunk = std::numeric_limits<int64_t>::max();
  // The body uses tiles in registers: it cannot be divided.
  bool undivided = false;
  // The last variable goes over vectors of a thread: see DivideByVectors.
  bool vectors = false;
};

// The statements of the loop. It says in a remark which tiles it is divided into.
ir::Stmt Roll(const RolledLoop& loop);

}  // namespace tilelang::reductions

#endif  // TILELANG_REDUCTIONS_ROLLED_LOOP_H_
