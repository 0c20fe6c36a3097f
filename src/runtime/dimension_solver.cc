#include "runtime/dimension_solver.h"

#include "ir/visitor.h"
#include "registry/functions.h"

namespace tilelang::runtime {

namespace {

bool Contains(const ir::Expr& expr, const ir::Var& var) {
  bool found = false;
  ir::WalkExprs(expr, [&](const ir::Expr& e) {
    found |= e.same_as(var);
    return !found;
  });
  return found;
}

ir::Expr Wide(const ir::Expr& expr) { return ir::CastTo(ir::dtypes::kInt64, expr); }

// Returns the value of the operand of `op` that contains the unknown, as SolveFor; `other` is the
// other operand.
std::optional<ir::Expr> SolveOperand(ir::BinaryOp op, bool unknown_first, const ir::Expr& other,
                                     const ir::Expr& value, bool is_exact) {
  switch (op) {
    case ir::BinaryOp::kAdd:
      return value - Wide(other);
    case ir::BinaryOp::kSub:
      return unknown_first ? value + Wide(other) : Wide(other) - value;
    case ir::BinaryOp::kMul:
      // Zero times anything is zero: the tensor has no elements, and any value will do.
      return ir::FloorDiv(value, ir::Max(Wide(other), ir::Const(ir::dtypes::kInt64, 1)));
    case ir::BinaryOp::kFloorDiv:
      if (!is_exact || !unknown_first) return std::nullopt;
      return value * Wide(other);
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<ir::Expr> SolveFor(const ir::Expr& extent, const ir::Var& unknown,
                                 const ir::Expr& value, bool is_exact) {
  if (extent.same_as(unknown)) return Wide(value);
  if (auto* cast = extent.as<ir::CastNode>())
    return SolveFor(cast->value, unknown, value, is_exact);
  auto* binary = extent.as<ir::BinaryNode>();
  if (binary == nullptr) return std::nullopt;
  bool first = Contains(binary->a, unknown);
  if (first == Contains(binary->b, unknown)) return std::nullopt;
  auto rest =
      SolveOperand(binary->Op(), first, first ? binary->b : binary->a, Wide(value), is_exact);
  if (!rest) return std::nullopt;
  return SolveFor(first ? binary->a : binary->b, unknown, *rest, is_exact);
}

TVM_FFI_STATIC_INIT_BLOCK() {
  registry::Functions().Add("tl.runtime.SolveFor",
                            [](ir::Expr extent, ir::Var unknown, ir::Expr value) {
                              return tvm::ffi::Optional<ir::Expr>(SolveFor(extent, unknown, value));
                            });
}

}  // namespace tilelang::runtime
