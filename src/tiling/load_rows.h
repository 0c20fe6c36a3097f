#ifndef TILELANG_TILING_LOAD_ROWS_H_
#define TILELANG_TILING_LOAD_ROWS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::tiling {

// Loads all that a block needs before it computes, in launches that reduce rows which threads load
// element by element:
//
//   X[row, :] -> x (float32)             X[row, :] -> X_row (bfloat16)
//   x -> mean, variance             ->   W -> W_first
//   Y[row, j] = f(x[j]) * W[j]           X_row -> x; x -> mean, variance
//                                        Y[row, j] = f(x[j]) * W_first[j]
//
// A warp issues instructions in order: where it converts the first element that arrives, the loads
// behind the conversion wait for it, and loads behind a reduction wait for the whole row. Rows that
// TMA or vectors of 16 bytes load need few loads, and stay as they are: registers would limit how
// many blocks an SM has.
//
// Launches of fragments, copies, fills, reductions and parallel loops (tiling/row_program.h). Loads
// of tensors that the launch writes, under conditions, or of too many elements a thread stay where
// they are. On all targets; with tcgen05, a thread may load twice as many. tl.disable_load_early
// turns the pass off.
ir::Func LoadRows(const ir::Func& func, const Target& target);

}  // namespace tilelang::tiling

#endif  // TILELANG_TILING_LOAD_ROWS_H_
