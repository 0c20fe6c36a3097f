// Reductions of what is longer than registers, and of contributions to reducers.
#ifndef TILELANG_REDUCTIONS_ROLL_REDUCTIONS_H_
#define TILELANG_REDUCTIONS_ROLL_REDUCTIONS_H_

#include "ir/function.h"

namespace tilelang::reductions {

// An attribute of tiles of T.alloc_reducer: the operation (String).
inline constexpr const char* kReducer = "reducer";
// An attribute of such tiles: contributions are combined in an order that the program fixes.
inline constexpr const char* kReductionOrder = "reduction_order";
// An annotation of serial loops that go through the chunks of a T.Parallel of unknown extent.
inline constexpr const char* kChunksOfParallel = "chunks_of_parallel";

// Replaces by loops over tiles, with running values in registers (rolled_loop.h),
//   T.reduce_* of memory that does not fit registers, or of an extent known at run time;
//   T.Parallel whose iterations contribute to reducers at elements that loop variables choose.
//     Contributions elsewhere stay atomic operations, with a remark.
ir::Func RollReductions(const ir::Func& func);

}  // namespace tilelang::reductions

#endif  // TILELANG_REDUCTIONS_ROLL_REDUCTIONS_H_
