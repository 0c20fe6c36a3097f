#include "schedule/operation_counter.h"

#include <functional>
#include <string_view>

#include "ir/visitor.h"

namespace tilelang::schedule {
namespace {

constexpr std::string_view kPolynomial = "exp2_fma";

bool IsPolynomial(const ir::Expr& e) {
  const auto* call = e.as<ir::CallNode>();
  return call != nullptr &&
         std::string_view(call->name.data(), call->name.size()).starts_with(kPolynomial);
}

}  // namespace

void OperationCounter::Count(const ir::Stmt& s, int64_t times) {
  std::function<bool(const ir::Expr&)> count = [&](const ir::Expr& e) {
    // Which elements are polynomials is not known here: all count as what the others are.
    const auto* choice = e.as<ir::SelectNode>();
    if (choice == nullptr || !IsPolynomial(choice->true_value)) {
      Count(e.get(), times);
      return true;
    }
    ir::WalkExprs(choice->false_value, count);
    return false;
  };
  ir::WalkExprs(s, count);
}

void OperationCounter::Count(const ir::ExprNode* e, int64_t times) {
  if (!ir::IsFloat(e->dtype)) return;
  if (e->kind == ir::ExprKind::kCall) {
    const ir::String& call = static_cast<const ir::CallNode*>(e)->name;
    std::string_view name(call.data(), call.size());
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
