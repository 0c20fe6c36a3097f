// T.annotate_safe_value: what is read outside of a tensor, in place of zero.
#ifndef TILELANG_OP_SAFE_VALUES_H_
#define TILELANG_OP_SAFE_VALUES_H_

#include "ir/visitor.h"

namespace tilelang::op {

// A call of this intrinsic, (load, value), is the load, and the value where the element lies
// outside of its tensor. GuardAccesses makes a choice of it.
inline constexpr char kLoadOr[] = "load_or";

// The statements of a block in which the elements outside of these tensors have these values;
// blocks inside that say something else have been through here before.
ir::Stmt WithSafeValues(const ir::Stmt& block, const ir::Map<ir::Buffer, ir::Expr>& values);

}  // namespace tilelang::op

#endif  // TILELANG_OP_SAFE_VALUES_H_
