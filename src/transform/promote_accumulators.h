#ifndef TILELANG_TRANSFORM_PROMOTE_ACCUMULATORS_H_
#define TILELANG_TRANSFORM_PROMOTE_ACCUMULATORS_H_

#include "ir/function.h"

namespace tilelang::transform {

// A gemm with promote_every=n becomes, for each n of K, a gemm into a fragment of its own, which
// it overwrites, and a parallel loop that adds the fragment to C. They stand in the sequence of
// the gemm, so that the schedule sees each of them.
ir::Func PromoteAccumulators(const ir::Func& func);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_PROMOTE_ACCUMULATORS_H_
