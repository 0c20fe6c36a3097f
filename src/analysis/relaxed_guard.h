// Conditions on threads that follow from conditions on threads and blocks.
#ifndef TILELANG_ANALYSIS_RELAXED_GUARD_H_
#define TILELANG_ANALYSIS_RELAXED_GUARD_H_

#include <vector>

#include "analysis/memory_access.h"

namespace tilelang::analysis {

// Returns a condition without the variables of `ranges` that holds wherever `guard` holds for some
// of their values: in a linear comparison, each variable has the value with which it holds most
// easily. With bx < 2, bx * 512 + tx * 4 >= 1020 becomes 512 + tx * 4 >= 1020, which one of 128
// threads fulfils. Null for other conditions.
ir::Expr RelaxedGuard(const ir::Expr& guard, const std::vector<AccessContext::Range>& ranges);

}  // namespace tilelang::analysis

#endif  // TILELANG_ANALYSIS_RELAXED_GUARD_H_
