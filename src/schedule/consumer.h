// The program of the roles that compute: everything but the loads.
#ifndef TILELANG_SCHEDULE_CONSUMER_H_
#define TILELANG_SCHEDULE_CONSUMER_H_

#include "schedule/free_running.h"
#include "schedule/ring.h"

namespace tilelang::schedule {

// The body of a launch for the threads that use what others load: they wait for each tile before
// its first use and release it after the last one. Iterations of pipelined loops overlap
// (schedule/overlap.h), or their gemms run free (schedule/free_running.h).
// `first_warp` is the condition that holds in their first one.
ir::Stmt WriteConsumers(const std::vector<Ring>& rings, const FreeRunning& free,
                        const ir::Expr& first_warp, const ir::Stmt& body);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_CONSUMER_H_
