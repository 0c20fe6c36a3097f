#include "ir/launch_extent.h"

#include <tvm/ffi/cast.h>

namespace tilelang::ir {

namespace {

// The node of a condition's extent; null for another one.
const SelectNode* Conditional(const Expr& extent) {
  const auto* select = extent.as<SelectNode>();
  return select != nullptr && IsConst(select->false_value, 0) ? select : nullptr;
}

}  // namespace

Expr ExtentInside(const Expr& extent) {
  const SelectNode* select = Conditional(extent);
  return select == nullptr ? extent : ExtentInside(select->true_value);
}

Array<Expr> ExtentsInside(const Array<Expr>& grid) {
  Array<Expr> inside;
  for (const Expr& extent : grid) inside.push_back(ExtentInside(extent));
  return inside;
}

Expr EmptyLike(const Expr& extent, const Expr& inside) {
  const SelectNode* select = Conditional(extent);
  if (select == nullptr) return inside;
  return Select(select->condition, EmptyLike(select->true_value, inside), select->false_value);
}

Expr EmptyLike(const Array<Expr>& extents, Expr inside) {
  for (const Expr& extent : extents) inside = EmptyLike(extent, inside);
  return inside;
}

}  // namespace tilelang::ir
