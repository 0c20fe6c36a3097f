#include "arith/cost.h"

#include <algorithm>
#include <unordered_map>

namespace tilelang::arith {

using ir::BinaryOp;
using ir::Expr;
using ir::ExprKind;

namespace {

constexpr int64_t kMaxCost = int64_t{1} << 40;

bool IsPowerOfTwo(const Expr& e) {
  auto value = ir::AsInt(e);
  return value && *value > 0 && (*value & (*value - 1)) == 0;
}

class CostModel {
 public:
  int64_t Of(const Expr& e) {
    auto it = memo_.find(e.get());
    if (it != memo_.end()) return it->second;
    int64_t cost = std::min(kMaxCost, Compute(e));
    memo_.emplace(e.get(), cost);
    return cost;
  }

 private:
  int64_t Compute(const Expr& e) {
    switch (e->kind) {
      case ExprKind::kIntImm:
      case ExprKind::kFloatImm:
      case ExprKind::kStringImm:
      case ExprKind::kVar:
        return 1;
      case ExprKind::kBinary: {
        const auto* op = static_cast<const ir::BinaryNode*>(e.get());
        return Own(op) + Of(op->a) + Of(op->b);
      }
      case ExprKind::kUnary:
        return 4 + Of(static_cast<const ir::UnaryNode*>(e.get())->a);
      case ExprKind::kCast:
        return 4 + Of(static_cast<const ir::CastNode*>(e.get())->value);
      case ExprKind::kSelect: {
        const auto* op = static_cast<const ir::SelectNode*>(e.get());
        return 4 + Of(op->condition) + Of(op->true_value) + Of(op->false_value);
      }
      case ExprKind::kLoad:
        return All(16, static_cast<const ir::LoadNode*>(e.get())->indices);
      case ExprKind::kCall:
        return All(16, static_cast<const ir::CallNode*>(e.get())->args);
    }
    return 0;
  }

  int64_t All(int64_t own, const ir::Array<Expr>& exprs) {
    for (const Expr& e : exprs) own += Of(e);
    return own;
  }

  int64_t Own(const ir::BinaryNode* op) {
    if (op->Op() != BinaryOp::kFloorDiv && op->Op() != BinaryOp::kFloorMod) return 4;
    if (IsPowerOfTwo(op->b)) return 5;
    return ir::AsInt(op->b) ? 20 : 80;
  }

  std::unordered_map<const ir::ExprNode*, int64_t> memo_;
};

}  // namespace

int64_t Cost(const Expr& e) { return CostModel().Of(e); }

}  // namespace tilelang::arith
