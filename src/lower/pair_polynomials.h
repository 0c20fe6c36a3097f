#ifndef TILELANG_LOWER_PAIR_POLYNOMIALS_H_
#define TILELANG_LOWER_PAIR_POLYNOMIALS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::lower {

// Computes the polynomials of two iterations together, in unrolled loops of the thread IR that
// store T.exp2_fma of float32 in registers, if the target adds and multiplies two float32 at once.
ir::Func PairPolynomials(const ir::Func& func, const Target& target);

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_PAIR_POLYNOMIALS_H_
