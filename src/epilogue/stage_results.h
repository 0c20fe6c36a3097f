#ifndef TILELANG_EPILOGUE_STAGE_RESULTS_H_
#define TILELANG_EPILOGUE_STAGE_RESULTS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::epilogue {

// Sends results of gemms from registers to their tensor through shared memory, where the program
// copies them straight: T.copy(c, C[...]) becomes a copy to a tile and one from it, which
// stmatrix and the tensor memory accelerator do. Threads would store four bytes of a row each, half
// a sector for four of them.
//
// Results are fragments that gemms add up in, and those that threads fill from these: sums over
// steps of products with scale factors, and results of another type.
//
// Applies to elements of 16 bits on targets with wgmma or tcgen05.mma. All threads must copy the
// result once, at the end of a block that has no roles of its own, and the accelerator must be able
// to store the tile. With wgmma, the grid must also fill half of the GPU, or threads hold columns
// (op/gemm_wgmma.h): fewer blocks finish sooner if threads store. With tcgen05.mma, each thread
// holds a row, so that an instruction of a warp would store parts of 32 rows.
//
// The tile takes the bytes of the operands, which the last gemm has read by then
// (memory::kOverlays). If the tile is larger than the operands, an SM must still hold as many
// blocks. In a loop over the tiles of a block, and before another gemm, the next operands arrive
// meanwhile; the tile then takes bytes of its own, if there are so many.
//
// Slices take most results of tcgen05.mma (epilogue/slice_epilogue.h); this pass takes those that
// stay whole. On sm_120a eleven GEMMs take from 7 % less to 10 % more time by the
// model of time: blocks that share an SM hide their stores, and staging makes them wait for their
// operands. The launches of sm_120a and sm_80 stay.
ir::Func StageResults(const ir::Func& func, const Target& target);

}  // namespace tilelang::epilogue

#endif  // TILELANG_EPILOGUE_STAGE_RESULTS_H_
