#ifndef TILELANG_LOWER_LOWER_TILE_OPS_H_
#define TILELANG_LOWER_LOWER_TILE_OPS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::lower {

// Tile IR to thread IR: every tile operator becomes the statements of one thread, fragments
// become register arrays, layouts are applied, every buffer has one dimension.
ir::Func LowerTileOps(const ir::Func& func, const Target& target);

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_LOWER_TILE_OPS_H_
