#ifndef TILELANG_CHECK_CHECK_BATCH_INVARIANCE_H_
#define TILELANG_CHECK_CHECK_BATCH_INVARIANCE_H_

#include "ir/function.h"

namespace tilelang::check {

// Refuses sums whose order depends on which thread or block comes first, because a row's result
// would then depend on the rows beside it. Contributions to reducers must be rolled
// (RollReductions), so that atomic contributions stand as atomic operations. Returns `func`.
// Raises SemanticsError for an atomic addition of floating-point numbers, by a call, a copy or a
// reducer.
ir::Func CheckBatchInvariance(const ir::Func& func);

}  // namespace tilelang::check

#endif  // TILELANG_CHECK_CHECK_BATCH_INVARIANCE_H_
