#ifndef TILELANG_SYNC_ASSIGN_ARRIVALS_H_
#define TILELANG_SYNC_ASSIGN_ARRIVALS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::sync {

// Gives each T.tcgen05_mma_arrive to the thread that issues the gemms it is for: an arrival
// covers what its own thread has issued, so one by another thread completes at once. An arrival of
// several groups of threads, whose issuing thread issues no gemm, goes to the group among them
// that issues some. SemanticsError where no such group, or more than one, is among its threads, and
// for a gemm that no thread of its group commits while others arrive. Runs after ResolveRoles.
ir::Func AssignArrivals(const ir::Func& func, const Target& target);

}  // namespace tilelang::sync

#endif  // TILELANG_SYNC_ASSIGN_ARRIVALS_H_
