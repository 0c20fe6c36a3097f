#ifndef TILELANG_TRANSFORM_PERSIST_BLOCKS_H_
#define TILELANG_TRANSFORM_PERSIST_BLOCKS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::transform {

// Has one block a multiprocessor compute the tiles of a plain gemm (transform/plain_gemm.h) with a
// short loop, one after another, as T.Persistent of the program would: the next tile loads while
// the result of the one before is stored, and no block begins but the first ones.
//
// On targets with wgmma, of grids with two blocks or more for each multiprocessor, which holds one
// at a time; where no block sees the others, the accelerator loads the tiles, and results of 16
// bits leave room for themselves beside the stages. Remarks say each.
ir::Func PersistBlocks(const ir::Func& func, const Target& target);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_PERSIST_BLOCKS_H_
