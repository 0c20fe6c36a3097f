// What the calls in a statement mean for the order of accesses.
#ifndef TILELANG_ANALYSIS_SYNC_CALLS_H_
#define TILELANG_ANALYSIS_SYNC_CALLS_H_

#include <functional>
#include <optional>
#include <string_view>

#include "analysis/thread_set.h"
#include "ir/async.h"
#include "ir/intrinsics.h"
#include "ir/stmt.h"

namespace tilelang::analysis {

// The function that a statement calls for its effect, or "".
std::string_view CalledBy(const ir::Stmt& s);
// Whether `test` holds for a call in `s`; its Intrinsic is null for device functions.
bool HasCall(const ir::Stmt& s,
             const std::function<bool(const ir::CallNode*, const ir::Intrinsic*)>& test);
// The mbarriers among the arguments of a call: their buffer, null for none.
ir::Buffer MbarrierOf(const ir::CallNode* call);
// The mbarriers on which all that a statement waits for completes; null: waits for something else.
ir::Buffer MbarrierWaitedOn(const ir::Stmt& s);
// Waits on an mbarrier until asynchronous engines are done.
bool WaitsOnMbarrier(const ir::Stmt& s);
// Waits for all that its own threads have asked of the engine.
bool WaitsForAll(const ir::Stmt& s, ir::Engine engine);
// Waits for other warps: on a barrier of the program. Those who wait on the compiler's barriers
// issued the work themselves, which orders them with nobody else.
bool IsRole(const ir::Stmt& s);
// A function that neither the compiler nor the language knows.
bool IsOfProgram(const ir::CallNode* call);
// Hands over to those who wait on a barrier of the program what the thread has done.
bool IsArrivalCall(const ir::CallNode* call);
// Such an arrival, or one at a named barrier or that of the cluster.
bool ArrivesForOthers(const ir::CallNode* call);
// The tiles that such a call hands over; nothing: whatever the program means by it.
std::optional<ir::Array<ir::Buffer>> GivenBackBy(const ir::CallNode* call);
bool IsArrival(const ir::Stmt& s);
// Names a barrier that the program allocates.
bool UsesProgramBarrier(const ir::Stmt& s);
// fence.proxy.async
bool IsFence(const ir::Stmt& s);

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_SYNC_CALLS_H_
