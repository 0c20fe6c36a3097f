// Counts how many iterations of T.Parallel a condition leaves.
#ifndef TILELANG_CHECK_WRITING_ITERATIONS_H_
#define TILELANG_CHECK_WRITING_ITERATIONS_H_

#include <cstdint>
#include <vector>

#include "arith/analyzer.h"

namespace tilelang::check {

// 0 <= var < extent, all other variables fixed.
struct Iterations {
  ir::Var var;
  int64_t extent = 0;
};

// The value may differ between iterations: so may what a variable of the thread holds.
bool DependsOn(const ir::Expr& e, const ir::Var& var);

// Returns whether the conditions may be meant to leave one iteration. Returns false when they
// certainly leave several, or are bounds (`i < n`) that are not proven to leave one; returns true
// where values of memory decide.
bool MayLeaveOne(const std::vector<ir::Expr>& conditions, const Iterations& iterations);

}  // namespace tilelang::check

#endif  // TILELANG_CHECK_WRITING_ITERATIONS_H_
