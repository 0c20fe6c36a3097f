#ifndef TILELANG_TILING_SIZE_BLOCKS_H_
#define TILELANG_TILING_SIZE_BLOCKS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Chooses how many elements a block of an elementwise program has. Such a program is a launch that
// does nothing else than one parallel loop over elements of tensors.
//
// A block whose threads have less than 16 bytes of the narrowest tensor gets the elements of
// several blocks, because no vector loads less than a thread has, and because an SM starts a block
// in about the time in which it moves a kilobyte:
//
//     block 7: elements 0..255 of part 7   ->   block 0: elements 0..255 of parts 0..7
//
// Each SM still has a block. The indices of tensors must not have another stride than one in the
// last variable of the loop, so that longer vectors are possible. On all targets.
//
// A block whose threads load or store more than 32 bytes is divided. Each block then computes a
// part of the rows of the loop, or of its columns where there is one row:
//
//     block 0: rows 0..63   ->   block 0: rows 0..31, block 1: rows 32..63
//
// A thread with several vectors waits for each of them, and needs registers for all. Threads with
// one or two vectors are as many as an SM holds, and the last wave is shorter. A part leaves each
// thread 16 bytes of each tensor. On all targets.
//
// A remark says each choice, and the pass option tl.disable_block_fitting turns the pass off.
ir::Func SizeBlocks(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_SIZE_BLOCKS_H_
