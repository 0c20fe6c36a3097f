#ifndef TILELANG_TILING_WIDEN_ROWS_H_
#define TILELANG_TILING_WIDEN_ROWS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Gives blocks of chained GEMMs, such as attention, as many rows as tensor memory has lanes: 128.
// tcgen05.mma takes as long for 64 rows, and a block loads the other operands for its own rows
// only. It applies to programs with one loop that loads tiles and multiplies them, in which each
// row of the result is computed by itself. Blocks of which one replaces several may run different
// numbers of iterations if more of them would change nothing (tiling/idle_iterations.h), as in
// causal attention. Grids that would have fewer blocks than the GPU has multiprocessors stay.
//
// A block of 128 rows (or of a multiple) with more threads than rows gets one thread for each row,
// if rows have at most 128 columns: threads then reduce rows by themselves, and two blocks fit a
// multiprocessor, of which one multiplies while the threads of the other compute. Sums of rows have
// another order.
//
// For targets with tcgen05. On sm_80, sm_90a and sm_120a a matrix instruction has fewer rows. A
// remark names the rows or the threads. The pass option tl.disable_tile_choice turns the pass off.
ir::Func WidenRows(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_WIDEN_ROWS_H_
