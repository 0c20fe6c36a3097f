#ifndef TILELANG_OP_THREAD_SYNC_H_
#define TILELANG_OP_THREAD_SYNC_H_

#include "op/context.h"

namespace tilelang::op {

// A barrier of the threads that execute the operator: __syncthreads() for a whole CTA, __syncwarp()
// for a warp, else a named barrier.
Stmt SyncThreads(const Context& ctx, const Span& span);

}  // namespace tilelang::op

#endif  // TILELANG_OP_THREAD_SYNC_H_
