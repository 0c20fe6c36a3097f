#ifndef TILELANG_TILING_FIT_ROWS_H_
#define TILELANG_TILING_FIT_ROWS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Gives a plain gemm (tiling/plain_gemm.h) with a long loop and 128 x 128 tiles of 16-bit
// operands, on targets with wgmma, tiles that divide its rows evenly (tiling/even_tiles.h), so
// that all blocks are in one wave: 300 rows are two tiles of 152, not three of 128. Where rows of a
// tile are no multiple of 64, wgmma computes it transposed (op/gemm_wgmma.h), whose columns are in
// 64s.
//
// Only where all statements treat the rows, and columns, of the result alike, each by itself. Sums
// of elements keep their order. A remark says it.
// Where clusters of blocks that share the iterations of a tile (tiling/add_parts.h) take clearly
// less time, they do, and sums may have other last bits: not in functions with the attribute
// ir::kWholeSums.
ir::Func FitRows(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_FIT_ROWS_H_
