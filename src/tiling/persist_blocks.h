#ifndef TILELANG_TILING_PERSIST_BLOCKS_H_
#define TILELANG_TILING_PERSIST_BLOCKS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Has one block a multiprocessor compute the tiles of a plain gemm (tiling/plain_gemm.h), one
// after another, as T.Persistent of the program would: the next tile loads while the result of the
// one before is stored, and no block begins but the first ones. Where the last wave has tiles for
// few multiprocessors, another launch computes them in parts of fewer columns
// (tiling/tile_cost.h). Or pairs of blocks load tiles of B together (tiling/share_loads.h),
// where that estimate says that L2 limits them.
//
// On targets with wgmma, of grids of more than a wave, where a multiprocessor holds one block at a
// time; where no block sees the others, tiles take as long, the accelerator loads them, the
// epilogue treats elements one by one, and results of 16 bits leave room for themselves beside the
// stages. Remarks say each. tiling/choose_tiles.h makes blocks of tcgen05.mma persistent. A block
// of sm_80 and sm_120a has too little shared memory for results beside three stages of such tiles.
ir::Func PersistBlocks(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_PERSIST_BLOCKS_H_
