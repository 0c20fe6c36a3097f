#ifndef TILELANG_TILING_LOOSEN_GEMMS_H_
#define TILELANG_TILING_LOOSEN_GEMMS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Rewrites GEMMs that name more than the product as plain GEMMs (tiling/plain_gemm.h), for which
// choose_tiles then chooses tiles, stages and pairs of blocks:
//
//   for k in serial:                               for k in pipelined:
//     A[...] -> a; a -> r; r -> a in tensor memory   A[...] -> a
//     B[...] -> b                                    B[...] -> b
//     gemm(a in tensor memory, b, c, mbar)           gemm(a by tensor memory, b, c)
//     wait for mbar
//   c in tensor memory -> r; r -> C[...]           c -> C[...]
//
// A loop over K may be serial, or pipelined with any number of stages. The program may wait for an
// mbarrier of its own right after the GEMM. It may allocate the sums in tensor memory if it only
// fills them and reads all of them. The operand A may be a copy of a shared tile in registers or in
// tensor memory. It then goes there in the same way (op::kByTensorMemory): the loop still computes
// with A in tensor memory.
//
// The serial loop of chained GEMMs, such as attention, becomes a pipelined one if it loads
// operands.
//
// Other launches of which this makes no plain GEMM stay as they are, and so do grids of fewer
// blocks than multiprocessors, and all programs on sm_90a. GEMMs of a serial loop that name nothing
// else are rewritten on both targets, in grids of eight blocks or more. On sm_80 and sm_120a the
// program is compiled as written. A remark says what is the compiler's to choose. The pass option
// tl.disable_tile_choice turns the pass off.
ir::Func LoosenGemms(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_LOOSEN_GEMMS_H_
