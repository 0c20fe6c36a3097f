// Operands in tensor memory are stored as soon as the threads have them.
#ifndef TILELANG_SCHEDULE_EARLY_OPERANDS_H_
#define TILELANG_SCHEDULE_EARLY_OPERANDS_H_

#include "ir/stmt.h"

namespace tilelang::schedule {

// In pipelined loops of a launch: a copy of a fragment to an operand of a gemm by tcgen05 moves up
// to the statement that computes the fragment. The registers are free then for other work before
// the gemm, such as rescaling the result of attention, and that work hides the latency of the
// store. Statements that share memory keep their order.
ir::Stmt StoreOperandsEarly(const ir::Stmt& launch);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_EARLY_OPERANDS_H_
