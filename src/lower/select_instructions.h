#ifndef TILELANG_LOWER_SELECT_INSTRUCTIONS_H_
#define TILELANG_LOWER_SELECT_INSTRUCTIONS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::lower {

// Chooses the instruction of every tile operator: the first of the target's table
// (op/instruction.h) that serves the operands and sees no obstacle. Copies and fills that none
// carries out become loops of threads, with a remark that says why; operands of reductions in
// shared memory go by way of fragments. Operators that have an instruction keep it. T.gemm without
// one is a LayoutError. `use_tma`: the tensor memory accelerator may be chosen.
ir::Func SelectInstructions(const ir::Func& func, const Target& target, bool use_tma);

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_SELECT_INSTRUCTIONS_H_
