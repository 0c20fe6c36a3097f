#ifndef TILELANG_TRANSFORM_REALIGN_ROWS_H_
#define TILELANG_TRANSFORM_REALIGN_ROWS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::transform {

// Copies the tensors of a plain gemm (transform/plain_gemm.h) whose rows begin at no multiple of 16
// bytes, which the tensor memory accelerator cannot load, to memory of the call in which they do:
// by a launch before that of the gemm, which loads the copies. Zeros fill their rows up to whole
// lines of L2, as those beyond the tensor's would be.
//
// Threads load such tiles element by element, and once for each block that has them. Only where
// that is long: the copy is read and written once. Of tensors of two or three dimensions
// whose rows have a length that the program knows, on targets with wgmma. A remark says so.
ir::Func RealignRows(const ir::Func& func, const Target& target);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_REALIGN_ROWS_H_
