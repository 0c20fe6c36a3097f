#ifndef TILELANG_TILING_NARROW_CHAINS_H_
#define TILELANG_TILING_NARROW_CHAINS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Gives blocks of attention 64 queries instead of a multiple, and its iterations 64 keys. A block
// is then one warpgroup with few registers: two or three share a multiprocessor, of which one
// multiplies while others compute their softmax, load their first tiles or store. Blocks of one
// large tile keep a multiprocessor idle meanwhile, but load fewer bytes for as many products.
//
// It applies to loops that compute a running softmax (analysis/running_softmax.h) of scores that
// are computed from a GEMM, constants and values of their row alone, and of which the first key is
// not masked in any row: else rows could have no number until a key that counts. The order of sums
// changes. Blocks end after the last key that one of their queries sees.
//
// Measured on an H200, with 23 shapes of head dimensions 40 to 128 and 187 to 4096 tokens: results
// of at most 64 columns take 0.56 to 0.95 of the time, wider ones 0.77 to 1.0 of it if a block has
// at most four iterations of 128 keys, and up to 1.17 if it has more. So the pass applies to these.
//
// For sm_90a. On sm_100a blocks have 128 rows, as tensor memory has (tiling/widen_rows.h). On sm_80
// and sm_120a a warp holds 16 rows whatever the tile is; nothing is measured there. The pass option
// tl.disable_tile_choice turns the pass off.
ir::Func NarrowChains(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_NARROW_CHAINS_H_
