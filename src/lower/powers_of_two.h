// Exponentials as powers of two.
#ifndef TILELANG_LOWER_POWERS_OF_TWO_H_
#define TILELANG_LOWER_POWERS_OF_TWO_H_

#include "ir/expr.h"

namespace tilelang::lower {

// Returns the power of 2 that a call of exp or exp2 is: exp(x) is 2^(x * log2(e)). The factor joins
// constants of the argument where this takes no operation more, as in exp(s * c - highest * c),
// and where no product can become infinite that was finite.
ir::Expr PowerOf(const ir::CallNode* exponential);

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_POWERS_OF_TWO_H_
