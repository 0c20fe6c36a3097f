// Elements of tensors that a T.Parallel loop loads, as tiles that are loaded before it.
#ifndef TILELANG_TRANSFORM_LOADED_ELEMENTS_H_
#define TILELANG_TRANSFORM_LOADED_ELEMENTS_H_

#include <functional>
#include <vector>

#include "ir/tile_op.h"

namespace tilelang::transform {

// The elements of one tensor at one place of the body.
struct LoadedElements {
  ir::Buffer tensor;
  ir::Array<ir::Expr> indices;
  ir::Array<ir::Var> vars;  // of the loop, that the element follows
  ir::Buffer tile;          // in registers, of their extents

  // The loop over `vars` that fills the tile, with variables of its own.
  ir::Stmt Load(const ir::Span& span) const;
};

struct SplitLoop {
  std::vector<LoadedElements> loaded;
  ir::Stmt body;  // of the loop, with the tiles in place of the tensors
};

// Splits a loop into loads and the rest. Loads stay where their places are read from memory, where
// a condition in an expression guards them, and where `stays` says so; an element that no variable
// chooses has a tile without dimensions. Names for indices are written out.
SplitLoop SplitLoads(const ir::ParallelForNode* loop,
                     const std::function<bool(const ir::LoadNode*)>& stays);

// Returns the values of the names in the loop that are computed from indices alone.
ir::Map<ir::Var, ir::Expr> IndexNames(const ir::ParallelForNode* loop);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_LOADED_ELEMENTS_H_
