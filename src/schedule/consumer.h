// The program of the threads that compute: everything but what other roles do.
#ifndef TILELANG_SCHEDULE_CONSUMER_H_
#define TILELANG_SCHEDULE_CONSUMER_H_

#include "schedule/description.h"
#include "schedule/gemm_turns.h"
#include "schedule/ring.h"

namespace tilelang::schedule {

// The body of a launch for the threads that use what others load: they wait for each tile before
// its first use and release it after the last one. Iterations of pipelined loops overlap
// (schedule/overlap.h), or their gemms are another role's (schedule/gemm_turns.h): the threads say
// when they are ready for a turn, and wait for it where they take part. `thread` is their index.
// Notes which iteration statements are of.
ir::Stmt WriteConsumers(const std::vector<Ring>& rings, const GemmTurns& turns,
                        const ir::Expr& thread, const ir::Stmt& body, IterationNotes* notes);

}  // namespace tilelang::schedule

#endif  // TILELANG_SCHEDULE_CONSUMER_H_
