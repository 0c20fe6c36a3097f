// What calls do to the order of accesses: the one table that names them.
#ifndef TILELANG_ANALYSIS_CALL_ORDER_H_
#define TILELANG_ANALYSIS_CALL_ORDER_H_

#include <functional>
#include <optional>

#include "ir/async.h"

namespace tilelang::analysis {

enum class CallOrder : uint8_t {
  kNone,
  kBlock,        // all threads of the block, or of a range, wait for each other
  kWarp,         // those of a warp do
  kWarpgroups,   // those of each warpgroup do
  kWait,         // for a phase of an mbarrier
  kWaitCluster,  // the same, for what threads of other blocks have done
  kTest,         // whether it is complete
  kArrive,       // at an mbarrier
  kExpect,       // the same, with the bytes of loads
  kArriveOther,  // at a named barrier, or that of the cluster
  kCommit,       // the tensor core arrives at an mbarrier
  kProxyFence,
  kTensorBefore,  // tcgen05.fence
  kTensorAfter,
  kTensorAlloc,  // all of tensor memory
  kTensorFree,
  kUnknown,  // a function that neither the compiler nor the language knows
};
CallOrder OrderOf(const ir::CallNode* call);

// Whether a call in `s`, at any depth, passes the test.
bool HasCall(const ir::Stmt& s, const std::function<bool(const ir::CallNode*)>& test);
// Whether a call of `s` does this.
bool Does(const ir::Stmt& s, CallOrder order);
// The same of a statement that is nothing but the call.
bool IsCallThat(const ir::Stmt& s, CallOrder order);

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
// Hands over to those who wait on a barrier of the program what the thread has done.
bool ArrivesForRoles(const ir::CallNode* call);
// Such an arrival, or one at a named barrier or that of the cluster.
bool ArrivesForOthers(const ir::CallNode* call);
// The tiles that such a call hands over; nothing: whatever the program means by it.
std::optional<ir::Array<ir::Buffer>> GivenBackBy(const ir::CallNode* call);
// Names a barrier that the program allocates.
bool UsesProgramBarrier(const ir::Stmt& s);

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_CALL_ORDER_H_
