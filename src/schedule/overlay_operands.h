// Tiles of tensor memory that take the columns of another one.
#ifndef TILELANG_SCHEDULE_OVERLAY_OPERANDS_H_
#define TILELANG_SCHEDULE_OVERLAY_OPERANDS_H_

#include "ir/stmt.h"

namespace tilelang::schedule {

// Overlays an operand A on a result in tensor memory, in pipelined loops whose tiles would take
// more than `columns`. Threads compute A from the result of another gemm of the iteration
// (attention: P from S), and A takes the columns of that result. Each warp has read its part of the
// result before it writes its part of A. The gemm that overwrites the result in the next iteration
// follows the gemm that reads A in the pipe of the tensor core, which keeps their order.
//
// Each warpgroup must have 128 rows: a warp then has the same lanes of both tiles.
ir::Stmt OverlayOperands(const ir::Stmt& launch, int64_t columns);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_OVERLAY_OPERANDS_H_
