#ifndef TILELANG_TILING_REALIGN_ROWS_H_
#define TILELANG_TILING_REALIGN_ROWS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Copies the tensors of a plain gemm (tiling/plain_gemm.h) whose rows begin at no multiple of 16
// bytes, which the tensor memory accelerator cannot load, to memory of the call in which they do:
// by a launch before that of the gemm, which loads the copies. Zeros fill their rows up to whole
// lines of L2, as those beyond the tensor's would be.
//
// Threads load such tiles element by element, and once for each block that has them. Only where
// that is long: the copy is read and written once. Of tensors of two or three dimensions, on
// targets with wgmma. A remark says so.
//
// Where the length of rows is one of the call, the gemm loads each tensor itself in calls in which
// its rows begin at vectors (ir/stand_in.h), and its copy in others. In calls that copies take
// longer for, another launch runs, whose threads load; functions with the attribute
// ir::kOneForAllCalls stay as they are where there would be one.
ir::Func RealignRows(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_REALIGN_ROWS_H_
