#include "transform/kernel_scope.h"

#include <algorithm>

namespace tilelang::transform {

using ir::Expr;

LaunchThreads ThreadsOf(const ir::KernelLaunchNode* launch) {
  LaunchThreads result{ir::Const(ir::dtypes::kInt32, 0), 1};
  for (size_t i = 0; i < launch->threads.size(); ++i) {
    int64_t extent = *ir::AsInt(launch->threads[i]);
    if (extent > 1) {
      result.linear =
          result.linear + launch->thread_vars[i] * ir::Const(ir::dtypes::kInt32, result.count);
    }
    result.count *= extent;
  }
  return result;
}

op::ThreadRange ActiveThreads(const LaunchThreads& threads, arith::Analyzer* analyzer) {
  arith::Interval bounds = analyzer->ConstBounds(threads.linear);
  int64_t lo = std::max<int64_t>(0, bounds.lo);
  int64_t hi = std::min<int64_t>(threads.count - 1, bounds.hi);
  return {lo, hi - lo + 1};
}

}  // namespace tilelang::transform
