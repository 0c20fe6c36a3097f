#ifndef TILELANG_TRANSFORM_EXPAND_TILE_OPS_H_
#define TILELANG_TRANSFORM_EXPAND_TILE_OPS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::transform {

// Writes simple tile operators in terms of fewer ones: copies and fills done by threads become
// parallel loops, reductions get fragments as operands. Leaves T.Parallel, reductions, and the
// copies and gemms that hardware engines carry out.
ir::Func ExpandTileOps(const ir::Func& func, const Target& target);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_EXPAND_TILE_OPS_H_
