#ifndef TILELANG_TRANSFORM_LOWER_TILE_OPS_H_
#define TILELANG_TRANSFORM_LOWER_TILE_OPS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::transform {

// Tile IR to thread IR: every tile operator becomes the statements of one thread, fragments
// become register arrays, layouts are applied, every buffer has one dimension.
ir::Func LowerTileOps(const ir::Func& func, const Target& target);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_LOWER_TILE_OPS_H_
