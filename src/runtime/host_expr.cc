#include "runtime/host_expr.h"

#include <tvm/ffi/cast.h>

#include "arith/widen.h"
#include "ir/error.h"
#include "ir/printer.h"
#include "ir/visitor.h"

namespace tilelang::runtime {

namespace {

// Gives every variable a slot, and refuses what needs the device.
void Prepare(const ir::Expr& expr, VarSlots* slots) {
  ir::WalkExprs(expr, [&](const ir::Expr& e) {
    if (auto* var = e.as<ir::VarNode>()) slots->Intern(tvm::ffi::GetRef<ir::Var>(var));
    if (e->kind == ir::ExprKind::kLoad || e->kind == ir::ExprKind::kCall ||
        e->kind == ir::ExprKind::kFloatImm) {
      throw tvm::ffi::Error("tilelang.UnsupportedError",
                            "`" + ir::Print(expr) +
                                "` is a size of the launch, but uses what only the device can "
                                "compute\n@note sizes of a launch may use constants, scalar "
                                "parameters and symbolic dimensions",
                            "");
    }
    return true;
  });
}

}  // namespace

int VarSlots::Intern(const ir::Var& var) {
  auto [position, inserted] = slots_.try_emplace(var.get(), size());
  if (inserted) vars_.push_back(var);
  return position->second;
}

HostExpr::HostExpr(const ir::Expr& expr, VarSlots* slots, bool in_64_bits) : expr_(expr) {
  Prepare(expr, slots);
  if (auto* var = expr.as<ir::VarNode>()) {
    slot_ = slots->Intern(tvm::ffi::GetRef<ir::Var>(var));
  } else if (auto value = ir::AsInt(expr)) {
    is_constant_ = true;
    constant_ = *value;
  } else {
    program_ = arith::HostProgram({in_64_bits ? arith::Widen(expr) : expr}, slots->vars());
  }
}

std::string HostExpr::Text() const { return ir::Print(expr_); }

}  // namespace tilelang::runtime
