#ifndef TILELANG_ARITH_WIDEN_H_
#define TILELANG_ARITH_WIDEN_H_

#include <functional>

#include "ir/expr.h"

namespace tilelang::arith {

// `e` of a signed type, computed in 64 bits: sums, products, quotients, minima and choices of at
// most 32 bits down to what `leaf` (by default a conversion) makes of variables, loads and calls.
ir::Expr Widen(const ir::Expr& e, const std::function<ir::Expr(const ir::Expr&)>& leaf = nullptr);

}  // namespace tilelang::arith

#endif  // TILELANG_ARITH_WIDEN_H_
