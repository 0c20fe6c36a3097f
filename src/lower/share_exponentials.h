#ifndef TILELANG_LOWER_SHARE_EXPONENTIALS_H_
#define TILELANG_LOWER_SHARE_EXPONENTIALS_H_

#include "ir/function.h"
#include "target/target.h"

namespace tilelang::lower {

// Divides the exponentials and hyperbolic tangents of a pipelined loop with gemms, or of chained
// gemms outside of loops, between the unit of special functions (MUFU) and the FMA pipe. Attention
// of 128 dimensions computes 128 x 128 weights in 1024 cycles on MUFU, as long as the tensor core
// multiplies.
//
// In T.Parallel loops over fragments of float32, on targets with tensor memory and packed float32
// operations, every eighth to third pair of columns gets the polynomial of T.exp2_fma of degree 5.
// Its largest error is that of exp2f (2 units in the last place). MUFU computes all others by
// ex2.approx.ftz, whose results are zero below 2^-126: exp2f takes two more instructions to scale
// such results, and threads that also compute polynomials have no time for them. Where MUFU takes
// less than half of the time of the gemms, all exponentials stay as they are.
//
// exp(x) becomes exp2(x * log2(e)), where expf takes eight instructions more for an argument that
// is exact. The factor joins constants of the argument, as in exp(s * c - highest * c). The product
// is rounded, so the relative error is at most 1.25 * 2^-24 * |x| more than that of exp2: as much
// as that of an argument whose last bit is rounded.
//
// tanh, which caps scores, counts as two operations of MUFU: tanhf takes an exponential, a
// reciprocal and 15 other instructions. Here it is a quotient of polynomials (tl::tanh_fma) with an
// error of 7.3 units in the last place instead of 2: half of the operations of MUFU, and half of
// the others for two elements at once.
//
// Other targets (sm_80, sm_90a, sm_120a) compute all exponentials by ex2.approx.ftz, and tanhf: two
// elements at once take two operations of the FMA pipe there.
ir::Func ShareExponentials(const ir::Func& func, const Target& target);

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_SHARE_EXPONENTIALS_H_
