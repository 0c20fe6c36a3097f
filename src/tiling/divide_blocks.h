#ifndef TILELANG_TILING_DIVIDE_BLOCKS_H_
#define TILELANG_TILING_DIVIDE_BLOCKS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Divides the blocks of elementwise programs, launches that do nothing else than one parallel loop
// over elements of tensors, if a thread would load more than 32 registers. Each block then computes
// a part of the rows of the loop:
//
//     block 0: rows 0..63   ->   block 0: rows 0..31, block 1: rows 32..63
//
// All loads of a block are under way at once, and then all its stores. Smaller blocks, of which an
// SM holds more, mix the two, and the last wave is shorter. A part leaves each thread 16 bytes of
// each tensor.
//
// For targets with tcgen05. Others have less HBM bandwidth for each SM: the timing model predicts
// no difference on sm_80, sm_90a and sm_120a. A remark says it.
ir::Func DivideBlocks(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_DIVIDE_BLOCKS_H_
