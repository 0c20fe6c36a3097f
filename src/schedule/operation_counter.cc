#include "schedule/operation_counter.h"

#include <functional>

#include "ir/intrinsics.h"
#include "ir/visitor.h"

namespace tilelang::schedule {
namespace {

bool IsPolynomial(const ir::Expr& e) {
  const auto* call = e.as<ir::CallNode>();
  return call != nullptr && call->Is(ir::Builtin::kPolynomial);
}

}  // namespace

void OperationCounter::Count(const ir::Stmt& s, int64_t times) {
  std::function<bool(const ir::Expr&)> count = [&](const ir::Expr& e) {
    // It is not known here which elements use polynomials, so all of them count like the others.
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
    const auto* call = static_cast<const ir::CallNode*>(e);
    const ir::Intrinsic* known = call->intrinsic;
    if (call->Is(ir::Builtin::kPolynomial)) {
      fp32 += times * (5 + known->count);  // beside its degree, five more of that pipe
      return;
    }
    if (known != nullptr && known->mufu) {
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
