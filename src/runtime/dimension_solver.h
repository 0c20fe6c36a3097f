// Symbolic dimensions that no tensor has alone, but a product or a sum of them: (n * k,).
#ifndef TILELANG_RUNTIME_DIMENSION_SOLVER_H_
#define TILELANG_RUNTIME_DIMENSION_SOLVER_H_

#include <optional>

#include "ir/expr.h"

namespace tilelang::runtime {

// The value of `unknown` for which `extent` is `value`, an expression of 64 bits over `value` and
// the other variables of `extent`; rounded down where there is none exactly. Sums, differences and
// products that contain `unknown` once are solved; nullopt for other forms. With `is_exact`,
// divisions are solved too, and leave no rest: elements of 4 bits fill bytes.
std::optional<ir::Expr> SolveFor(const ir::Expr& extent, const ir::Var& unknown,
                                 const ir::Expr& value, bool is_exact = false);

}  // namespace tilelang::runtime

#endif  // TILELANG_RUNTIME_DIMENSION_SOLVER_H_
