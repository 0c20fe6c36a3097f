// Where a statement of a kernel stands: which threads run it, and what its variables range over.
#ifndef TILELANG_TRANSFORM_KERNEL_SCOPE_H_
#define TILELANG_TRANSFORM_KERNEL_SCOPE_H_

#include "op/context.h"

namespace tilelang::transform {

// The thread index of the CTA, x fastest, and the number of threads.
struct LaunchThreads {
  ir::Expr linear;
  int64_t count;
};
LaunchThreads ThreadsOf(const ir::KernelLaunchNode* launch);

// The threads that reach a statement, from what the analyzer knows of the thread index: a
// contiguous range; TL_USER_ERROR when a tile operator stands under a condition that is no range
// of whole warps.
op::ThreadRange ActiveThreads(const LaunchThreads& threads, arith::Analyzer* analyzer);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_KERNEL_SCOPE_H_
