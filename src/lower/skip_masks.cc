#include "lower/skip_masks.h"

#include <tvm/ffi/cast.h>
#include <tvm/ffi/extra/structural_equal.h>

#include <optional>
#include <vector>

#include "arith/analyzer.h"
#include "ir/arithmetic.h"
#include "ir/effects.h"
#include "ir/fresh_copy.h"
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

// The iterations in which a condition is true for all elements: [from, until), of which an
// undefined end has no limit.
struct Iterations {
  Expr from;
  Expr until;
};

// Returns the larger number of those that are defined, or the smaller one.
Expr Further(const Expr& a, const Expr& b, bool larger) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  return larger ? ir::Max(a, b) : ir::Min(a, b);
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
    auto whole = Unmasked(op, ir::Substitute(condition, values_));
    if (!whole) return self;
    const Expr& k = loop_->var;
    Stmt early = whole->from.defined() ? ir::If(k < whole->from, self, Stmt(), op->span) : Stmt();
    if (!whole->until.defined()) return early;
    // The mask may be added, so no iteration executes both.
    Expr until = early.defined() ? ir::Max(whole->from, whole->until) : whole->until;
    Stmt late = ir::If(k >= until, self, Stmt(), op->span);
    return early.defined() ? ir::MakeSeq({ir::FreshCopy().MutateStmt(early), late}, op->span)
                           : late;
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

  // Returns the iterations in which the condition is true for all elements; nothing if unknown.
  std::optional<Iterations> Unmasked(const ir::ParallelForNode* op, const Expr& condition) {
    const auto* test = condition.as<ir::BinaryNode>();
    if (test == nullptr) return std::nullopt;
    switch (test->Op()) {
      case BinaryOp::kAnd:
      case BinaryOp::kBitAnd: {
        auto a = Unmasked(op, test->a);
        auto b = Unmasked(op, test->b);
        if (!a || !b) return std::nullopt;
        return Iterations{Further(a->from, b->from, true), Further(a->until, b->until, false)};
      }
      case BinaryOp::kGe:
        return NoneNegative(op, test->a, test->b, 0);
      case BinaryOp::kGt:
        return NoneNegative(op, test->a, test->b, 1);
      case BinaryOp::kLe:
        return NoneNegative(op, test->b, test->a, 0);
      case BinaryOp::kLt:
        return NoneNegative(op, test->b, test->a, 1);
      default:
        return std::nullopt;
    }
  }

  // Returns the iterations in which a - b - margin is negative for no element.
  std::optional<Iterations> NoneNegative(const ir::ParallelForNode* op, const Expr& a,
                                         const Expr& b, int64_t margin) {
    const ir::Var& k = loop_->var;
    bool fits = ir::IsInt(a.dtype()) && a.dtype() == k.dtype() && b.dtype() == k.dtype();
    if (!fits) return std::nullopt;
    auto constant = [&](int64_t value) { return ir::Const(k.dtype(), value); };
    Expr least = a - b - constant(margin);
    for (size_t d = 0; d < op->vars.size(); ++d) {
      auto stride = analyzer_.StrideOf(least, op->vars[d]);
      if (!stride) return std::nullopt;
      Expr zero = ir::Const(op->vars[d].dtype(), 0);
      Expr last = op->extents[d] - ir::Const(op->extents[d].dtype(), 1);
      least = ir::Substitute(least, {{op->vars[d], *stride < 0 ? last : zero}});
    }
    auto step = analyzer_.StrideOf(least, k);
    if (!step || *step == 0) return std::nullopt;
    Expr first = ir::Substitute(least, {{k, constant(0)}});
    if (!IsFixed(first)) return std::nullopt;
    // least(k) = first + step * k >= 0 for k <= first / -step, or from (step - 1 - first) / step
    // on.
    if (*step < 0) {
      Expr last = ir::FloorDiv(first, constant(-*step));
      return Iterations{Expr(), analyzer_.Simplify(last + constant(1))};
    }
    Expr from = ir::FloorDiv(constant(*step - 1) - first, constant(*step));
    return Iterations{analyzer_.Simplify(from), Expr()};
  }

  // Returns whether a value is the same in all iterations.
  bool IsFixed(const Expr& value) const {
    bool fixed = ir::IsArithmetic(value);
    ir::WalkStmts(loop_->body, [&](const Stmt& s) {
      const auto* bind = s.as<ir::BindNode>();
      return fixed &= bind == nullptr || !ir::UsesVar(value, bind->var);
    });
    return fixed;
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
