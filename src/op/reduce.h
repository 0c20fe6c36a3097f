// T.reduce_*: a fragment reduced along one dimension into another fragment.
#ifndef TILELANG_OP_REDUCE_H_
#define TILELANG_OP_REDUCE_H_

#include "op/access.h"
#include "op/instruction.h"

namespace tilelang::op {

// A reduction by the threads that hold the fragments.
const TileInstruction* ThreadReduce();

// Copies shared operands of a reduction to or from fragments, so that both are fragments.
Stmt StageReduceOperands(const ir::ReduceNode* op);

}  // namespace tilelang::op

#endif  // TILELANG_OP_REDUCE_H_
