// Pairs of blocks that compute the tiles of a GEMM together on Blackwell (op/cta_pair.h).
#ifndef TILELANG_TILING_PAIR_BLOCKS_H_
#define TILELANG_TILING_PAIR_BLOCKS_H_

#include "ir/function.h"
#include "target/target.h"
#include "tiling/plain_gemm.h"

namespace tilelang::tiling {

// Returns a number that divides the columns of the tiles of a pair. `along_n`: rows of B in memory
// run along N. `a_by_threads`: threads bring A to tensor memory.
int64_t PairColumnUnit(bool along_n, bool a_by_threads);

// Returns whether two blocks, of tiles one below the other, can compute the GEMM of a launch as a
// pair: each loads its own rows of A and half of the columns of B, and tcgen05.mma with
// .cta_group::2 multiplies with both halves. The blocks must load the same tile of B, and the block
// behind the last row of an odd grid must store nothing.
bool CanPair(const ir::Func& func, const ir::KernelLaunchNode* launch, const PlainGemm& plain,
             const Target& target);

// Returns the launch `sequenced` (tiling/tile_sequence.h), which was made of that launch, with such
// GEMMs; `rank`: of a block in its pair.
ir::Stmt InPairs(const ir::Stmt& sequenced, const PlainGemm& plain, const ir::Expr& rank);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_PAIR_BLOCKS_H_
