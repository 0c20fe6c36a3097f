#include "analysis/kernel_scope.h"

#include <algorithm>

namespace tilelang::analysis {

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

namespace {

// The largest value up to `most` that is provably no more than the thread index; the index itself
// is a sum of variables, of which the analyzer knows facts rather than bounds.
int64_t ProvenBelow(const Expr& linear, int64_t most, arith::Analyzer* analyzer) {
  int64_t least = 0;
  while (least < most) {
    int64_t middle = (least + most + 1) / 2;
    bool holds = analyzer->CanProve(linear >= ir::Const(ir::dtypes::kInt32, middle));
    (holds ? least : most) = holds ? middle : middle - 1;
  }
  return least;
}

}  // namespace

op::ThreadRange ActiveThreads(const LaunchThreads& threads, arith::Analyzer* analyzer) {
  arith::Interval bounds = analyzer->ConstBounds(threads.linear);
  int64_t lo = std::max<int64_t>(0, bounds.lo);
  int64_t hi = std::min<int64_t>(threads.count - 1, bounds.hi);
  if (threads.linear->kind != ir::ExprKind::kVar) {
    lo = std::max(lo, ProvenBelow(threads.linear, hi, analyzer));
    Expr from_end = ir::Const(ir::dtypes::kInt32, hi) - threads.linear;
    hi -= ProvenBelow(from_end, hi - lo, analyzer);
  }
  return {lo, hi - lo + 1};
}

}  // namespace tilelang::analysis
