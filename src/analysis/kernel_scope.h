// The scope of a statement in a kernel: the threads that run it, and the ranges of its variables.
#ifndef TILELANG_ANALYSIS_KERNEL_SCOPE_H_
#define TILELANG_ANALYSIS_KERNEL_SCOPE_H_

#include "op/context.h"

namespace tilelang::analysis {

// The thread index of the CTA, x fastest, and the number of threads.
struct LaunchThreads {
  ir::Expr linear;
  int64_t count;
};
LaunchThreads ThreadsOf(const ir::KernelLaunchNode* launch);

// The threads that reach a tile operator, from what the analyzer knows of the thread index; exact
// after ResolveRoles.
op::ThreadRange ActiveThreads(const LaunchThreads& threads, arith::Analyzer* analyzer);

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_KERNEL_SCOPE_H_
