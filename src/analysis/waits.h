// The waits in a statement at any depth, and the data that it hands over to other threads.
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
// Returns whether a statement waits for other warps on a barrier that is not a phase of the
// compiler. A thread that waits on a phase of the compiler has issued the work itself, so that wait
// orders no other thread.
bool IsRole(const ir::Stmt& s);
// Returns whether a statement releases the accesses of the thread to threads that wait on such a
// barrier.
bool ArrivesForRoles(const ir::Stmt& s);
// Returns whether a statement is such an arrival, or an arrival at a named barrier or at the
// barrier of the cluster, without a wait.
bool ArrivesForOthers(const ir::Stmt& s);
// The tiles that an arrival or a barrier hands over; nothing: whatever the program means by it.
ir::Optional<ir::Array<ir::Buffer>> GivenBackBy(const ir::Stmt& s);
// Names a barrier that the program allocates, other than to set it up.
bool UsesProgramBarrier(const ir::Stmt& s);

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_WAITS_H_
