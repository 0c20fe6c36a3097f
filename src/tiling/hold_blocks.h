#ifndef TILELANG_TILING_HOLD_BLOCKS_H_
#define TILELANG_TILING_HOLD_BLOCKS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Makes ptxas leave registers for a second block on a multiprocessor, so that one block multiplies
// while the other one computes or stores its results. Without a bound, ptxas gives 160 threads with
// 64 KiB of sums up to 255 registers each as soon as the epilogue is more than a copy, and a
// multiprocessor holds one block instead of two.
//
// Applies on targets with wgmma, to launches with gemms and more blocks than multiprocessors, if a
// multiprocessor holds the fragments of two blocks by the estimate of tiling/residency.h. Launches
// that say how many blocks a multiprocessor holds (T.annotate_min_blocks_per_sm) keep that. On
// targets with tensor memory, schedule/fit_turns.h does so for loops whose gemms and threads take
// turns; elsewhere sums are in tensor memory and leave registers. On sm_80, GEMMs of a wave and
// more would take 1 to 4 % longer by the model of time, since ptxas overlaps fewer loads with fewer
// registers. On sm_120a shared memory has room for one such block.
ir::Func HoldBlocks(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_HOLD_BLOCKS_H_
