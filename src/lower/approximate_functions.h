#ifndef TILELANG_LOWER_APPROXIMATE_FUNCTIONS_H_
#define TILELANG_LOWER_APPROXIMATE_FUNCTIONS_H_

#include "ir/function.h"

namespace tilelang::lower {

// Computes exponentials and quotients of float32 by fewer instructions in launches whose results
// are all bfloat16 or float16, such as a softmax of rows:
//
//   exp(x - m)   8 instructions -> 2: ex2.approx.ftz(x * log2(e)), zero below 2^-126; also in
//                                  sums with a constant
//   exp(x)       8 instructions -> 5: ex2.approx, since the exponentials of a whole row may be
//                                  below 2^-126
//   a / b       14 instructions -> 1 where several elements share b, otherwise 5: a times the
//                                  reciprocal of b (tl::divide_by_reciprocal, tl::quotient)
//   sigmoid(x)  as 1 / (1 + exp(-x))
//
// The relative error is at most 2^-22, and that of an exponential 1.25 * 2^-24 * |x| more. Results
// are rounded to 11 bits or fewer: about one of a thousand gets another last bit. Applies to all
// targets, because HBM otherwise waits for the threads.
//
// A launch qualifies if a small error cannot become a large one: it has fragments, copies, fills,
// reductions and loops only, its functions are continuous, it compares no floats, and converts none
// to integers or to types of 8 bits. Roots, logarithms and powers of numbers with an error, and
// quotients by them, must keep away from their limits (lower/limited_functions.h). A launch with a
// GEMM stays as it is: share_exponentials chooses its functions. A remark says it, and the pass
// option tl.disable_approximate_functions turns it off.
ir::Func ApproximateFunctions(const ir::Func& func);

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_APPROXIMATE_FUNCTIONS_H_
