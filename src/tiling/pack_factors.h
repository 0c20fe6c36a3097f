#ifndef TILELANG_TILING_PACK_FACTORS_H_
#define TILELANG_TILING_PACK_FACTORS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Packs the scale factors of a block-scaled GEMM into the order that the tensor core reads
// (op/gemm_scale_factors.h), by another launch before the launch of the GEMM.
//
// T.gemm accepts factors in the order of their tensor, (rows, blocks), or in words. A loop then
// copies them to a shared tile, and threads pack that tile into atoms in each iteration, for which
// the tensor core waits. All blocks of a row of tiles pack the same factors of A, and all blocks of
// a column those of B:
//
//     loop:  copy SA -> sa;  pack sa -> atoms;  gemm(a, b, c, atoms, ...)
//
// becomes
//
//     launch 1, a block for each tile of factors:  copy SA -> sa;  pack sa -> atoms;  atoms -> W
//     launch 2:  loop:  copy W -> atoms;  gemm(a, b, c, atoms, ...)
//
// TMA then loads all tiles of the loop, and a warp of its own issues the GEMMs. Needs a tile of
// factors that depends on the iteration and, in each dimension of the tensor, on one index of a
// block at most. A remark says so.
//
// GEMMs of few iterations whose factors few blocks load stay as they are: the launch would take
// longer. So do other targets than those with tcgen05: threads of sm_120a read factors in any
// order, and on sm_90a and sm_80 they multiply by them.
ir::Func PackFactors(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_PACK_FACTORS_H_
