// Barriers between threads that wait for a phase of an mbarrier and the thread that begins the
// next.
#ifndef TILELANG_TRANSFORM_ORDER_PHASES_H_
#define TILELANG_TRANSFORM_ORDER_PHASES_H_

#include "ir/function.h"

namespace tilelang::transform {

// Threads wait for one phase of an mbarrier after the other, told apart by parity alone: one that
// looks only after the next phase has completed, too, waits for ever. So all threads that wait on
// a barrier of the compiler (op::Completion) must have seen its phase before its issuing thread
// lets it complete again; on the way from the wait to the next issue, through loops too, they
// synchronize. Those that the program has or InsertSync put count. Barriers that the
// program allocates are its own affair.
ir::Func OrderPhases(const ir::Func& func);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_ORDER_PHASES_H_
