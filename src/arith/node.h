// Looking at expressions whose kind is known.
#ifndef TILELANG_ARITH_NODE_H_
#define TILELANG_ARITH_NODE_H_

#include "ir/expr.h"

namespace tilelang::arith {

// The node of an expression; NodeT must be its class.
template <typename NodeT>
const NodeT* As(const ir::Expr& e) {
  return static_cast<const NodeT*>(e.get());
}

// True for integers of any width, not for bool.
inline bool IsInteger(const ir::Expr& e) {
  return ir::IsIntegral(e.dtype()) && !ir::IsBool(e.dtype());
}

}  // namespace tilelang::arith

#endif  // TILELANG_ARITH_NODE_H_
