// Describes what calls of the thread IR do for the order of accesses: waits, arrivals, fences, and
// work that engines do beside the threads.
#ifndef TILELANG_VERIFY_OPERATION_H_
#define TILELANG_VERIFY_OPERATION_H_

#include <optional>
#include <string_view>

#include "ir/stmt.h"

namespace tilelang::verify {

enum class OperationKind : uint8_t {
  kNone,         // orders nothing
  kUnsupported,  // orders something, in a way that is not followed here
  // Threads wait for each other.
  kBarrier,
  kWarpBarrier,
  kElect,  // threads of a warp come together, memory is not ordered
  // mbarriers
  kInit,
  kInitFence,
  kArrive,
  kExpect,
  kArriveExpect,
  kWaitPhase,
  // The tensor memory accelerator
  kProxyFence,
  kTmaLoad,
  kTmaStore,
  kCommitStores,
  kWaitStores,  // until they have read shared memory, at least
  // Copies by each thread to shared memory
  kCopyAsync,
  kCommitCopies,
  kWaitCopies,
  // wgmma
  kWgmma,
  kWgmmaFence,
  kHold,  // keeps the compiler from moving uses of registers; no access
  kCommitWgmma,
  kWaitWgmma,
  // tcgen05
  kTensorCore,  // mma, cp
  kCommitTensorCore,
  kTmemLoad,  // with its wait
  kTmemStore,
  kWaitTmemStores,
  kBeforeSync,
  kAfterSync,
  kAllocTmem,
  kFreeTmem,
};

struct Operation {
  OperationKind kind = OperationKind::kNone;
  // The number of groups that a wait may leave in flight.
  int64_t left = 0;
  // The element of an mbarrier or its address, or the number of a named barrier; null: of none.
  ir::Expr barrier = {};
  // Threads of a named barrier; the count, bytes or parity of an mbarrier.
  ir::Expr number = {};
  bool of_range = false;  // threads from number `barrier` on, before barriers have numbers
};

// The name of a function without its namespace and template arguments.
std::string_view BaseName(std::string_view name);
// Returns the operation of a call. kNone means that it neither orders nor is ordered, except by its
// effects on memory.
Operation OperationOf(const ir::CallNode* call);
// Returns the operation of a statement that orders, or is one call. kNone stands for other
// statements.
Operation OperationOf(const ir::Stmt& s);
// The call that such a statement is.
ir::Call CallOf(const ir::Stmt& s);
// Anywhere in the statement or expression.
bool HasOperation(const ir::Stmt& s);
bool HasOperation(const ir::Expr& e);
// Work that an engine does beside the thread.
bool IsAsynchronous(OperationKind kind);
// "the copy", "the gemm"
const char* Describe(OperationKind kind);

}  // namespace tilelang::verify

#endif  // TILELANG_VERIFY_OPERATION_H_
