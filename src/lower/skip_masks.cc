#include "lower/skip_masks.h"

#include <tvm/ffi/extra/structural_equal.h>

#include <vector>

#include "arith/analyzer.h"
#include "ir/arithmetic.h"
#include "ir/effects.h"
#include "ir/visitor.h"
#include "schedule/channel.h"

namespace tilelang::lower {

using ir::BinaryOp;
using ir::Expr;
using ir::Stmt;

namespace {

// The condition of an element that a store leaves as it is where it is true; null for others.
Expr ConditionToKeep(const ir::StoreNode* store) {
  auto is_old = [&](const Expr& e) {
    const auto* load = e.as<ir::LoadNode>();
    return load != nullptr && load->buffer.same_as(store->buffer) &&
           ir::ffi::StructuralEqual::Equal(load->indices, store->indices);
  };
  auto is_zero = [](const Expr& e) {
    const auto* number = e.as<ir::FloatImmNode>();
    return number != nullptr && number->value == 0;
  };
  if (const auto* choice = store->value.as<ir::SelectNode>()) {
    return is_old(choice->true_value) ? choice->condition : Expr();
  }
  const auto* sum = store->value.as<ir::BinaryNode>();
  if (sum == nullptr || sum->Op() != BinaryOp::kAdd) return Expr();
  bool first = is_old(sum->a);
  if (!first && !is_old(sum->b)) return Expr();
  const auto* choice = (first ? sum->b : sum->a).as<ir::SelectNode>();
  return choice != nullptr && is_zero(choice->true_value) ? choice->condition : Expr();
}

class MaskSkipper : public ir::StmtMutator {
 public:
  explicit MaskSkipper(const ir::Func& func) { analyzer_.BindParams(func->params); }

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    arith::Analyzer::Scope scope(&analyzer_);
    analyzer_.BindLaunch(op);
    return StmtMutator::Rewrite(op);
  }
  Stmt Rewrite(const ir::ForNode* op) override {
    const ir::ForNode* outer = loop_;
    bool gemms =
        ir::HasStmt(op->body, [](const Stmt& s) { return s->kind == ir::StmtKind::kGemm; });
    loop_ = gemms && schedule::StagesOf(op) >= 1 ? op : nullptr;
    Stmt result = StmtMutator::Rewrite(op);
    loop_ = outer;
    return result;
  }
  Stmt Rewrite(const ir::BindNode* op) override {
    Note(op);
    return StmtMutator::Rewrite(op);
  }
  Stmt Rewrite(const ir::IfNode* op) override {
    const ir::ForNode* outer = loop_;
    loop_ = nullptr;  // the program skips iterations itself
    Stmt result = StmtMutator::Rewrite(op);
    loop_ = outer;
    return result;
  }
  Stmt Rewrite(const ir::ParallelForNode* op) override {
    Stmt self = ir::ffi::GetRef<Stmt>(op);
    const ir::StoreNode* store = OnlyStore(op->body);
    if (loop_ == nullptr || store == nullptr || !store->buffer.IsFragment()) return self;
    Expr condition = ConditionToKeep(store);
    if (!condition.defined()) return self;
    Expr bound = FirstToMask(op, ir::Substitute(condition, values_));
    if (!bound.defined()) return self;
    return ir::If(loop_->var >= bound, self, Stmt(), op->span);
  }

 private:
  // Returns the store of a body that does nothing else, and notes the names before it.
  const ir::StoreNode* OnlyStore(const Stmt& body) {
    const auto* seq = body.as<ir::SeqNode>();
    if (seq == nullptr) return body.as<ir::StoreNode>();
    for (size_t i = 0; i + 1 < seq->stmts.size(); ++i) {
      const auto* bind = seq->stmts[i].as<ir::BindNode>();
      if (bind == nullptr) return nullptr;
      Note(bind);
    }
    return seq->stmts.empty() ? nullptr : seq->stmts.back().as<ir::StoreNode>();
  }

  void Note(const ir::BindNode* op) {
    if (ir::IsArithmetic(op->value)) values_.Set(op->var, ir::Substitute(op->value, values_));
  }

  // The first value of the loop's variable for which the condition may be false for some element,
  // and is for all later ones no more often true; null where none is known.
  Expr FirstToMask(const ir::ParallelForNode* op, const Expr& condition) {
    const auto* test = condition.as<ir::BinaryNode>();
    if (test == nullptr) return Expr();
    switch (test->Op()) {
      case BinaryOp::kAnd: {
        Expr a = FirstToMask(op, test->a);
        Expr b = FirstToMask(op, test->b);
        return a.defined() && b.defined() ? ir::Min(a, b) : Expr();
      }
      case BinaryOp::kGe:
        return FirstNegative(op, test->a, test->b, 0);
      case BinaryOp::kGt:
        return FirstNegative(op, test->a, test->b, 1);
      case BinaryOp::kLe:
        return FirstNegative(op, test->b, test->a, 0);
      case BinaryOp::kLt:
        return FirstNegative(op, test->b, test->a, 1);
      default:
        return Expr();
    }
  }

  // The first value for which a - b - margin is negative for some element.
  Expr FirstNegative(const ir::ParallelForNode* op, const Expr& a, const Expr& b, int64_t margin) {
    const ir::Var& k = loop_->var;
    if (!ir::IsInt(a.dtype()) || a.dtype() != k.dtype() || b.dtype() != k.dtype()) return Expr();
    Expr least = a - b - ir::Const(k.dtype(), margin);
    for (size_t d = 0; d < op->vars.size(); ++d) {
      auto stride = analyzer_.StrideOf(least, op->vars[d]);
      if (!stride) return Expr();
      Expr zero = ir::Const(op->vars[d].dtype(), 0);
      Expr last = op->extents[d] - ir::Const(op->extents[d].dtype(), 1);
      least = ir::Substitute(least, {{op->vars[d], *stride < 0 ? last : zero}});
    }
    auto step = analyzer_.StrideOf(least, k);
    if (!step || *step >= 0) return Expr();
    Expr first = ir::Substitute(least, {{k, ir::Const(k.dtype(), 0)}});
    bool fixed = ir::IsArithmetic(first);
    ir::WalkStmts(loop_->body, [&](const Stmt& s) {
      const auto* bind = s.as<ir::BindNode>();
      return fixed &= bind == nullptr || !ir::UsesVar(first, bind->var);
    });
    if (!fixed) return Expr();
    // least(k) = first + step * k >= 0 for k <= first / -step.
    Expr largest = ir::FloorDiv(first, ir::Const(k.dtype(), -*step));
    return analyzer_.Simplify(largest + ir::Const(k.dtype(), 1));
  }

  arith::Analyzer analyzer_;
  ir::Map<ir::Var, Expr> values_;      // of names
  const ir::ForNode* loop_ = nullptr;  // pipelined, with gemms, the innermost one
};

}  // namespace

ir::Func SkipMasks(const ir::Func& func, const Target& target) {
  if (target->tmem_columns == 0) return func;
  return func.WithBody(MaskSkipper(func).MutateStmt(func->body));
}

}  // namespace tilelang::lower
