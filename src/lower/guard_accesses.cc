#include "lower/guard_accesses.h"

#include <tvm/ffi/cast.h>

#include "analysis/scoped_mutator.h"
#include "arith/widen.h"
#include "ir/error.h"
#include "op/safe_values.h"

namespace tilelang::lower {

namespace ffi = tvm::ffi;

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Stmt;

namespace {

class Guard : public analysis::ScopedMutator {
 public:
  explicit Guard(const ir::Func& func) { analyzer_.BindParams(func->params); }

  using ScopedMutator::Rewrite;

  Expr Rewrite(const ir::LoadNode* op) override {
    Expr load = ScopedMutator::Rewrite(op);
    Expr inside = InBounds(op->buffer, op->indices);
    if (in_address_of_) {
      address_condition_ = address_condition_ && inside;
      return load;
    }
    if (ir::IsTrue(inside)) return load;
    return ir::Select(inside, load, ir::Const(load.dtype(), 0), op->span);
  }

  Stmt Rewrite(const ir::StoreNode* op) override {
    Expr inside = InBounds(op->buffer, op->indices);
    if (ir::IsTrue(inside)) return ScopedMutator::Rewrite(op);
    // The loads of the store need not check again what its own condition implies.
    arith::Analyzer::Scope scope(&analyzer_, inside);
    return ir::If(inside, ScopedMutator::Rewrite(op), Stmt(), op->span);
  }

  Expr Rewrite(const ir::CallNode* op) override {
    if (op->Is(ir::Builtin::kLoadOr)) return LoadOr(op->args[0].as<ir::LoadNode>(), op->args[1]);
    if (op->Is(ir::Builtin::kAddressOf)) {
      in_address_of_ = true;
      Expr result = ScopedMutator::Rewrite(op);
      in_address_of_ = false;
      return result;
    }
    Expr saved = address_condition_;
    address_condition_ = True();
    Expr call = ScopedMutator::Rewrite(op);
    Expr inside = address_condition_;
    address_condition_ = saved;
    if (ir::IsTrue(inside)) return call;
    // A call made for its effect is guarded as a statement, whatever it returns.
    if (op == evaluated_ || call.dtype() == ir::dtypes::kVoid ||
        call.dtype() == ir::dtypes::kHandle) {
      statement_condition_ = statement_condition_ && inside;
      return call;
    }
    return ir::Select(inside, call, ir::Const(call.dtype(), 0), op->span);
  }

  Stmt Rewrite(const ir::EvaluateNode* op) override {
    statement_condition_ = True();
    evaluated_ = op->value.get();
    Stmt result = ScopedMutator::Rewrite(op);
    Expr inside = statement_condition_;
    statement_condition_ = True();
    return ir::IsTrue(inside) ? result : Stmt(ir::If(inside, result, Stmt(), op->span));
  }

 private:
  Expr LoadOr(const ir::LoadNode* load, const Expr& value) {
    Expr inside = InBounds(load->buffer, load->indices);
    Expr inner = ScopedMutator::Rewrite(load);
    return ir::IsTrue(inside) ? inner : Expr(ir::Select(inside, inner, Mutate(value), load->span));
  }

  static Expr True() { return ir::IntImm(ir::dtypes::kBool, 1); }

  // The part of "every index is inside its dimension" that is not proven.
  Expr InBounds(const Buffer& buffer, const Array<Expr>& indices) {
    Expr condition = True();
    if (!buffer.IsGlobal()) return condition;
    for (size_t d = 0; d < indices.size(); ++d) {
      const Expr& index = indices[d];
      Expr size = buffer->shape[d];
      if (!analyzer_.CanProveNonNegative(index)) {
        condition = condition && index >= ir::Const(index.dtype(), 0);
      }
      if (!analyzer_.CanProveLess(index, size)) {
        if (!Fits32(size)) size = arith::Widen(size);
        ir::DType wide = index.dtype().bits >= size.dtype().bits ? index.dtype() : size.dtype();
        condition = condition && ir::CastTo(wide, index) < ir::CastTo(wide, size);
      }
    }
    return condition;
  }

  bool Fits32(const Expr& e) {
    return arith::TypeRange(ir::dtypes::kInt32).Contains(analyzer_.ConstBounds(e));
  }

  bool in_address_of_ = false;
  Expr address_condition_ = True();
  Expr statement_condition_ = True();
  const ffi::Object* evaluated_ = nullptr;
};

}  // namespace

ir::Func GuardAccesses(const ir::Func& func) {
  return func.WithBody(Guard(func).MutateStmt(func->body));
}

}  // namespace tilelang::lower
