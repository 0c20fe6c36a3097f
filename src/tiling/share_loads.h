// Pairs of blocks that load a tile together.
#ifndef TILELANG_TILING_SHARE_LOADS_H_
#define TILELANG_TILING_SHARE_LOADS_H_

#include <vector>

#include "ir/function.h"
#include "tiling/plain_gemm.h"

namespace tilelang::tiling {

// Returns the loads of B of a plain gemm, where they are the same for all blocks whose second index
// alone differs: one block of a pair of such neighbours can load them for both by a multicast. None
// where a pair that has one block of the grid only would do what the program does not: store to a
// tensor that goes on after the grid.
std::vector<const ir::CopyNode*> LoadsToShare(const ir::Func& func,
                                              const ir::KernelLaunchNode* launch,
                                              const PlainGemm& plain);

// Returns the extent of the grid along which such pairs are; 0 where there are none.
int64_t RowsThatShare(const ir::Func& func, const ir::KernelLaunchNode* launch,
                      const PlainGemm& plain);

// `s` with these loads for both blocks of each cluster of two.
ir::Stmt ForBothBlocks(const ir::Stmt& s, const std::vector<const ir::CopyNode*>& loads);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_SHARE_LOADS_H_
