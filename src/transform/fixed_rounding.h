#ifndef TILELANG_TRANSFORM_FIXED_ROUNDING_H_
#define TILELANG_TRANSFORM_FIXED_ROUNDING_H_

#include "ir/stmt.h"

namespace tilelang::transform {

// The statement with every sum and product of float32 rounded where it stands: a product that the
// same expression adds to something is fused with the sum, all others are not. Left to itself,
// CUDA C++ fuses across statements as the branches between them allow, and the bits of a result
// depend on how loads are guarded. Integers, other types and calls stay as they are.
ir::Stmt WithFixedRounding(const ir::Stmt& s);

}  // namespace tilelang::transform

#endif  // TILELANG_TRANSFORM_FIXED_ROUNDING_H_
