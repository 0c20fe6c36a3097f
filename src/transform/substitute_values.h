// Names for values in the bodies of parallel loops.
#ifndef TILELANG_TRANSFORM_SUBSTITUTE_VALUES_H_
#define TILELANG_TRANSFORM_SUBSTITUTE_VALUES_H_

#include "ir/function.h"

namespace tilelang::transform {

// The most nodes of a value that is computed where it is used, names in it replaced. Copies of
// larger ones are not the C++ compiler's to merge.
inline constexpr int64_t kMostNodes = 200;

// A T.Parallel or T.vectorized loop whose body names values, as `row = by * 64 + i` or
// `x = A[row, j]`, computes them where they are used instead: a body of stores alone is one that
// vectors and cp.async can carry out. Names stay where a value is not pure, loads what the body
// writes, would grow large, or is an index of a fragment.
ir::Func SubstituteValues(const ir::Func& func);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_SUBSTITUTE_VALUES_H_
