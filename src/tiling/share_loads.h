// Pairs of blocks that load a tile together.
//
// The pass ShareLoads finds GEMMs of which each block computes one tile and all blocks run at a
// time. L2 limits them where rows of the tensors are no multiple of a line: it serves more lines
// than the bytes of a tile fill. If the model of tiles (tiling/tile_cost.h) prefers it, two blocks,
// one below the other, become a cluster, and each tile of B is loaded once for both by a multicast.
// A grid of an odd number of rows gets one more row of blocks, whose stores lie behind the tensors.
// Larger grids: tiling/persist_blocks.h. Targets with wgmma. On sm_100a a pair computes one tile
// with half of B in each block (tiling/pair_blocks.h); sm_80 has no clusters, and for sm_120a no
// gain is known.
#ifndef TILELANG_TILING_SHARE_LOADS_H_
#define TILELANG_TILING_SHARE_LOADS_H_

#include <vector>

#include "ir/function.h"
#include "target/target.h"
#include "tiling/plain_gemm.h"

namespace tilelang::tiling {

// Blocks of a cluster that load a tile together.
inline constexpr int64_t kSharingBlocks = 2;

// Returns the loads of B of a plain gemm, where they are the same for all blocks whose second index
// alone differs: one block of a pair of such neighbours can load them for both by a multicast. None
// where only one of them may run the loop, as under `if bx >= by` or behind an early return, or
// where a pair that has one block of the grid only would do what the program does not: store to a
// tensor that goes on after the grid.
std::vector<const ir::CopyNode*> LoadsToShare(const ir::Func& func,
                                              const ir::KernelLaunchNode* launch,
                                              const PlainGemm& plain);

// Returns the extent of the grid along which such pairs are; 0 where there are none, or where the
// pass option tl.disable_load_sharing excludes them.
int64_t RowsThatShare(const ir::Func& func, const ir::KernelLaunchNode* launch,
                      const PlainGemm& plain);

// `s` with these loads for both blocks of each cluster of two.
ir::Stmt ForBothBlocks(const ir::Stmt& s, const std::vector<const ir::CopyNode*>& loads);

ir::Func ShareLoads(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_SHARE_LOADS_H_
