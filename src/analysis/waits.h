// What statements wait for, at any depth, and what they hand over to others.
#ifndef TILELANG_ANALYSIS_WAITS_H_
#define TILELANG_ANALYSIS_WAITS_H_

#include "ir/async.h"

namespace tilelang::analysis {

// The mbarrier on which a statement waits for a phase; null: it waits for something else.
ir::Buffer MbarrierWaitedOn(const ir::Stmt& s);
// Waits on an mbarrier until asynchronous engines are done.
bool WaitsOnMbarrier(const ir::Stmt& s);
// Waits for all that its own threads have asked of the engine.
bool WaitsForAll(const ir::Stmt& s, ir::Engine engine);
// Waits for other warps: on a barrier that is not of the compiler's phases. A thread that waits for
// one of those has issued the work itself, so the wait orders no other thread.
bool IsRole(const ir::Stmt& s);
// Hands over to those who wait on such a barrier what the thread has done.
bool ArrivesForRoles(const ir::Stmt& s);
// Such an arrival, or one at a named barrier or that of the cluster, without waiting.
bool ArrivesForOthers(const ir::Stmt& s);
// The tiles that an arrival or a barrier hands over; nothing: whatever the program means by it.
ir::Optional<ir::Array<ir::Buffer>> GivenBackBy(const ir::Stmt& s);
// Names a barrier that the program allocates, other than to set it up.
bool UsesProgramBarrier(const ir::Stmt& s);

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_WAITS_H_
