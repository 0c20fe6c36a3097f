#ifndef TILELANG_LOWER_DIVIDE_ROWS_H_
#define TILELANG_LOWER_DIVIDE_ROWS_H_

#include "ir/function.h"

namespace tilelang::lower {

// Divides several float32 by one number with one reciprocal, as in the last step of a softmax:
//
//   for r in unrolled(32):          for c in unrolled(4):
//     x[r] = x[r] / total[0]          quotients[v] = x[c * 8 + v]  (v in 0 .. 7)
//                                     divide_by8(quotients, total[0])
//                                     x[c * 8 + v] = quotients[v]
//
// A division of its own takes 14 instructions, of which two run on MUFU. tl::divide_by takes six an
// element and gives the same bits (math.h states why): it tests whether all elements are in the
// range of its formula, and otherwise divides each of them.
//
// Quotients that become float16 or types of 8 bits, also between limits, take two instructions
// less: small elements need no test, because their quotients are zero there (tl::divide_narrowly).
// Quotients whose last bits do not matter (lower/approximate_functions.h) are products with the
// reciprocal, tl::divide_by_reciprocal: one instruction an element.
//
// In unrolled and vectorized loops of the thread IR that store one value, also under a condition,
// with one division by a number that 4, 8 or 16 consecutive iterations share. Loads that follow
// then need not wait for the branch of each division. On all targets.
ir::Func DivideRows(const ir::Func& func);

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_DIVIDE_ROWS_H_
