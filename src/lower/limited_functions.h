#ifndef TILELANG_LOWER_LIMITED_FUNCTIONS_H_
#define TILELANG_LOWER_LIMITED_FUNCTIONS_H_

#include <functional>

#include "ir/stmt.h"

namespace tilelang::lower {

// Returns whether `body` applies a root, a logarithm or a power to a number that depends on an
// expression with an error and may be next to the function's limit: sqrt(1 - x / m) is no number
// where the quotient of equal numbers is larger than 1, and log(1 - x / m) is finite where it is
// smaller. Divisors that are differences have the limit 0, and the power of a negative number
// exists for whole exponents alone. Numbers without differences keep their sign:
//
//   log(s), s the sum of exponentials        rsqrt(s / 64 + 1e-5), s the sum of squares
//
// has_error: returns whether an expression by itself has an error.
bool HasErrorAtLimit(const ir::Stmt& body, const std::function<bool(const ir::Expr&)>& has_error);

}  // namespace tilelang::lower

#endif  // TILELANG_LOWER_LIMITED_FUNCTIONS_H_
