#include "schedule/operation_counter.h"

#include <string_view>

#include "ir/visitor.h"

namespace tilelang::schedule {

void OperationCounter::Count(const ir::Stmt& s, int64_t times) {
  ir::WalkExprs(s, [&](const ir::Expr& e) {
    Count(e.get(), times);
    return true;
  });
}

void OperationCounter::Count(const ir::ExprNode* e, int64_t times) {
  if (!ir::IsFloat(e->dtype)) return;
  if (e->kind == ir::ExprKind::kCall) {
    const ir::String& call = static_cast<const ir::CallNode*>(e)->name;
    std::string_view name(call.data(), call.size());
    constexpr std::string_view kPolynomial = "exp2_fma";
    if (name.starts_with(kPolynomial)) {  // and its degree, beside which five more of that pipe
      fp32 += times * (5 + name[kPolynomial.size()] - '0');
      return;
    }
    for (std::string_view function : {"exp", "log", "sqrt", "rcp", "tanh", "sin", "cos"}) {
      if (name.find(function) == std::string_view::npos) continue;
      mufu += times;
      return;
    }
    fp32 += times;
  } else if (e->kind == ir::ExprKind::kBinary) {
    bool divides = static_cast<const ir::BinaryNode*>(e)->Op() == ir::BinaryOp::kDiv;
    (divides ? mufu : fp32) += times;
  } else if (e->kind == ir::ExprKind::kSelect || e->kind == ir::ExprKind::kCast) {
    fp32 += times;
  }
}

}  // namespace tilelang::schedule
