// Blocks of fewer threads than a warpgroup.
#ifndef TILELANG_TILING_FILL_WARPGROUP_H_
#define TILELANG_TILING_FILL_WARPGROUP_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Gives a launch of 32, 64 or 96 threads the 128 threads of a warpgroup if all of its GEMMs can
// then be computed by tcgen05.mma or wgmma. These instructions need a whole warpgroup; with fewer
// threads mma.sync computes the GEMMs, and takes about three times as long.
//
// Applies to launches in which nothing depends on the number of threads (tiling/plain_gemm.h). On
// sm_80 and sm_120a, whose instruction is mma.sync, launches stay as they are. A remark says it,
// and the pass option tl.disable_block_fitting turns it off.
ir::Func FillWarpgroup(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_FILL_WARPGROUP_H_
