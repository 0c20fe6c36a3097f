#include "transform/fixed_rounding.h"

#include "ir/build.h"
#include "ir/visitor.h"

namespace tilelang::transform {

using ir::BinaryOp;
using ir::Expr;

namespace {

Expr Rounded(const char* name, ir::Array<Expr> args, const ir::Span& span) {
  args.push_back(ir::StringImm("rn"));
  return ir::Call(ir::dtypes::kFloat32, name, args, {}, span);
}

class Rounder : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Expr Rewrite(const ir::BinaryNode* op) override {
    if (op->dtype != ir::dtypes::kFloat32) return StmtMutator::Rewrite(op);
    switch (op->Op()) {
      case BinaryOp::kMul:
        return Rounded("ieee_mul", {Mutate(op->a), Mutate(op->b)}, op->span);
      case BinaryOp::kAdd:
        if (const auto* product = Product(op->a)) return Fused(product, op->b, false, op->span);
        if (const auto* product = Product(op->b)) return Fused(product, op->a, false, op->span);
        return Rounded("ieee_add", {Mutate(op->a), Mutate(op->b)}, op->span);
      case BinaryOp::kSub:
        if (const auto* product = Product(op->b)) return Fused(product, op->a, true, op->span);
        return Rounded("ieee_sub", {Mutate(op->a), Mutate(op->b)}, op->span);
      default:
        return StmtMutator::Rewrite(op);
    }
  }

 private:
  static const ir::BinaryNode* Product(const Expr& e) {
    const auto* product = e.as<ir::BinaryNode>();
    return product != nullptr && product->Op() == BinaryOp::kMul ? product : nullptr;
  }
  Expr Fused(const ir::BinaryNode* product, const Expr& other, bool negative,
             const ir::Span& span) {
    Expr a = Mutate(product->a);
    if (negative) a = ir::MakeUnary(ir::UnaryOp::kNeg, a, span);
    return Rounded("ieee_fmaf", {a, Mutate(product->b), Mutate(other)}, span);
  }
};

}  // namespace

ir::Stmt WithFixedRounding(const ir::Stmt& s) { return Rounder().MutateStmt(s); }

}  // namespace tilelang::transform
