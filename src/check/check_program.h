#ifndef TILELANG_CHECK_CHECK_PROGRAM_H_
#define TILELANG_CHECK_CHECK_PROGRAM_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::check {

// Refuses what the frontend cannot see or what did not come through it; gives `func` back.
// ResourceError  more threads, grid or cluster than the target takes; a fragment larger than the
//                register file
// BoundsError    an access that is outside its buffer whenever it runs, or for some iteration of
//                unconditional loops (not for global memory, where edges are guarded)
// ScopeError     a buffer or variable used outside of the block that defines it
// ShapeError     T.gemm, T.copy and reductions whose tiles do not fit together
// DTypeError     element types that an operator does not take
// SemanticsError tile operators, barriers or jumps inside T.Parallel; vectorised loops without
//                a constant number of iterations
// TargetError    calls that need hardware which the target does not have
// Remarks ("check"): fragments read before they are written, fragments that will not stay in
// registers.
ir::Func CheckProgram(const ir::Func& func, const Target& target);

}  // namespace tilelang::check

#endif  // TILELANG_CHECK_CHECK_PROGRAM_H_
