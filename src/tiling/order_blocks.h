#ifndef TILELANG_TILING_ORDER_BLOCKS_H_
#define TILELANG_TILING_ORDER_BLOCKS_H_

#include "ir/function.h"
#include "ir/stmt.h"
#include "target/target.h"

namespace tilelang::tiling {

// Numbers the blocks of a grid of GEMMs by panels of rows, as T.use_swizzle does, if the program
// does not choose an order. Blocks that run at the same time then load fewer different tiles.
//
// The pass applies to launches whose loops load some tiles by the row of the block alone (tiles of
// A) and others by the column alone (tiles of B). A wave of W blocks, all that the GPU holds, loads
// one tile of A for each of its rows and one of B for each of its columns. It loads fewest with
// panels of sqrt(W * bytes of B / bytes of A) rows. Launches of one wave, for more than half of the
// multiprocessors and with fewer rows than columns, are one panel: neighbours then load the same
// tile of B, the larger tensor, which L2 brings to them once.
//
// Other launches of one wave stay as they are, and so do launches whose wave gains less than a
// tenth, clusters, and kernels in which a block may see the work of another one: kernels with
// atomics, with tensors that are read and written, with loops that wait, or with calls of foreign
// code. A remark says what was done.
ir::Func OrderBlocks(const ir::Func& func, const Target& target);

// Returns the launch with panels for waves of so many blocks, where these load less by them and the
// program states none.
ir::KernelLaunch OrderedByPanels(const ir::KernelLaunchNode* launch, int64_t wave);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_ORDER_BLOCKS_H_
