// Threads of blocks for which the tensor core has instructions.
#ifndef TILELANG_TILING_FIT_WARPS_H_
#define TILELANG_TILING_FIT_WARPS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Changes the number of threads of a launch where its GEMMs cannot be computed by as many:
//
// * tcgen05.mma and wgmma need whole warpgroups, wgmma so many that they share the result evenly. A
//   launch of 32, 64 or 96 threads gets 128, one of more gets the next smaller number that these
//   instructions can be computed by: 128 instead of 192, or 256 instead of 384. With fewer threads
//   mma.sync would compute the GEMMs, and take about three times as long.
// * mma.sync needs a number of warps that share the result evenly, in tiles of 16 x 8. If the given
//   one does not, and there is no instruction for warpgroups, the launch gets the next smaller one
//   that does: otherwise threads would multiply without the tensor core, 50 times as long.
//
// Applies to launches in which nothing depends on the number of threads (tiling/plain_gemm.h): on
// sm_100a and sm_90a both rules, on sm_80 and sm_120a the second. A remark says it, and the pass
// option tl.disable_block_fitting turns it off.
ir::Func FitWarps(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_FIT_WARPS_H_
