#ifndef TILELANG_TILING_LOAD_EARLY_H_
#define TILELANG_TILING_LOAD_EARLY_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Issues loads by TMA early in statements outside of loops, so that they arrive while the block
// computes. A load moves up to the first statement that uses a tile of the loads before it:
//
//     load Q, K; S = Q K; softmax; load V; O = P V    becomes
//     load Q, K; S = Q K; load V; softmax; O = P V
//
// It does not move further: loads that are issued together share a wait. It moves past tile
// operators and parallel loops that neither touch its tile nor write its tensor. A launch stays as
// it is if an SM holds fewer blocks where all of its tiles have bytes of their own. Attention of at
// most one tile of keys, 204 x 8 heads of 96: 49 instead of 68 µs in the timing model on sm_90a, 43
// instead of 45 on sm_100a. In pipelined loops a producer loads ahead (schedule/pipeline_loops.h);
// on sm_80 there is no TMA.
ir::Func LoadEarly(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_LOAD_EARLY_H_
