#ifndef TILELANG_TRANSFORM_APPLY_SCALE_FACTORS_H_
#define TILELANG_TRANSFORM_APPLY_SCALE_FACTORS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::transform {

// Where the tensor core takes no scale factors, a gemm with such becomes parallel loops that
// multiply A and B by theirs, and a gemm of the products in bfloat16, which holds them exactly but
// beyond its range. They stand in the sequence of the gemm.
ir::Func ApplyScaleFactors(const ir::Func& func, const Target& target);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_APPLY_SCALE_FACTORS_H_
