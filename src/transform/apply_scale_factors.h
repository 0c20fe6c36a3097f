#ifndef TILELANG_TRANSFORM_APPLY_SCALE_FACTORS_H_
#define TILELANG_TRANSFORM_APPLY_SCALE_FACTORS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::transform {

// Replaces a GEMM with scale factors, if the tensor core takes none, by parallel loops that
// multiply A and B by their factors, and a GEMM of the products in bfloat16. bfloat16 holds the
// products exactly, except beyond its range. The loops stand in the sequence of the GEMM.
ir::Func ApplyScaleFactors(const ir::Func& func, const Target& target);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_APPLY_SCALE_FACTORS_H_
