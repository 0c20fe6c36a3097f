#ifndef TILELANG_TILING_REALIGN_ROWS_H_
#define TILELANG_TILING_REALIGN_ROWS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Copies tensors of a plain GEMM (tiling/plain_gemm.h) whose rows begin at no multiple of 16 bytes,
// which neither TMA nor vectors of cp.async can load, to memory of the call in which they do.
// Another launch makes the copies before the GEMM, which loads them. Zeros fill the rows up to
// whole lines of L2, as TMA fills elements beyond the tensor.
//
// Without the copies, threads load such tiles element by element, once for each block that has
// them. The pass applies only where that takes long, because each copy is written and read once; to
// tensors of two or three dimensions, on all targets. A remark says so.
//
// If the length of rows is dynamic, the GEMM loads each tensor itself in calls in which its rows
// begin at vectors (ir/stand_in.h), and its copy in other calls. In calls for which copies take
// longer, another launch runs, whose threads load. Functions with the attribute ir::kOneForAllCalls
// stay as they are where they would get another launch.
ir::Func RealignRows(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_REALIGN_ROWS_H_
