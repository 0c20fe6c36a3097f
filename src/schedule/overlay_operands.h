// Tiles of tensor memory that take the columns of another one.
#ifndef TILELANG_SCHEDULE_OVERLAY_OPERANDS_H_
#define TILELANG_SCHEDULE_OVERLAY_OPERANDS_H_

#include "ir/stmt.h"

namespace tilelang::schedule {

// In pipelined loops, where the tiles of a launch would take more than `columns` of tensor memory:
// an operand A that threads compute from the result of another gemm of the iteration (attention:
// P from S) takes the columns of that result, in which each warp has read its part by the time it
// writes its part of A. The gemm that overwrites the result in the next iteration follows the one
// that reads A in the pipe of the tensor core, which keeps their order.
//
// This takes one warpgroup for each 128 rows: then a warp has the same lanes of both tiles.
ir::Stmt OverlayOperands(const ir::Stmt& launch, int64_t columns);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_OVERLAY_OPERANDS_H_
