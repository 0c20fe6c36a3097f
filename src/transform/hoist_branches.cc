#include "transform/hoist_branches.h"

#include <optional>
#include <utility>

#include "ir/fresh_copy.h"
#include "ir/visitor.h"

namespace tilelang::transform {

using ir::Expr;
using ir::Stmt;

namespace {

// Returns whether an expression has one value in all iterations of a loop that surrounds it.
bool IsInvariant(const ir::Expr& e, const ir::Var& loop_var) {
  return !ir::HasExpr(e, [&](const ir::Expr& part) {
    return part.same_as(loop_var) || part->kind == ir::ExprKind::kLoad ||
           part->kind == ir::ExprKind::kCall;
  });
}

// A store of the element that a choice loads from a tensor, with names and conditions around it.
struct ChosenStore {
  const ir::StoreNode* store = nullptr;
  const ir::SelectNode* choice = nullptr;
  ir::Map<ir::Var, Expr> names;
};

// Finds the only store of a statement; nothing if it does anything else.
std::optional<ChosenStore> FindChosen(const Stmt& s) {
  if (const auto* branch = s.as<ir::IfNode>()) {
    return branch->else_case.defined() ? std::nullopt : FindChosen(branch->then_case);
  }
  ChosenStore found;
  const auto* seq = s.as<ir::SeqNode>();
  ir::Array<Stmt> stmts = seq != nullptr ? seq->stmts : ir::Array<Stmt>{s};
  for (const Stmt& child : stmts) {
    if (const auto* bind = child.as<ir::BindNode>()) {
      found.names.Set(bind->var, ir::Substitute(bind->value, found.names));
      continue;
    }
    const auto* store = child.as<ir::StoreNode>();
    if (store == nullptr || found.store != nullptr) return std::nullopt;
    found.store = store;
  }
  if (found.store != nullptr) found.choice = found.store->value.as<ir::SelectNode>();
  if (found.choice == nullptr) return std::nullopt;
  const auto* load = found.choice->true_value.as<ir::LoadNode>();
  bool loads = load != nullptr && load->buffer.IsGlobal() &&
               !ir::HasLoad(found.choice->false_value) && found.store->buffer.IsLocal();
  return loads ? std::optional(found) : std::nullopt;
}

// Replaces the value of one store.
class ValueReplacer : public ir::StmtMutator {
 public:
  ValueReplacer(const ir::StoreNode* store, Expr value) : store_(store), value_(std::move(value)) {}
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::StoreNode* op) override {
    if (op != store_) return StmtMutator::Rewrite(op);
    return ir::Store(op->buffer, op->indices, value_, op->span);
  }

 private:
  const ir::StoreNode* store_;
  Expr value_;
};

class BranchHoister : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::ForNode* op) override {
    Stmt rewritten = StmtMutator::Rewrite(op);
    const auto* loop = rewritten.as<ir::ForNode>();
    if (Stmt chosen = WithChoiceAround(loop); chosen.defined()) return chosen;
    const auto* branch = loop->body.as<ir::IfNode>();
    if (branch == nullptr || branch->else_case.defined() ||
        !IsInvariant(branch->condition, loop->var)) {
      return rewritten;
    }
    Stmt inner = ir::For(loop->var, loop->min, loop->extent, loop->Kind(), branch->then_case,
                         loop->annotations, loop->span);
    return ir::If(branch->condition, inner, Stmt(), branch->span);
  }

 private:
  // Returns two loops for the values of a choice that is the same in all iterations; null for other
  // loops.
  static Stmt WithChoiceAround(const ir::ForNode* loop) {
    auto found = FindChosen(loop->body);
    if (!found || loop->Kind() == ir::ForKind::kVectorized) return Stmt();
    Expr condition = ir::Substitute(found->choice->condition, found->names);
    if (!IsInvariant(condition, loop->var)) return Stmt();
    auto with = [&](const Expr& value) {
      Stmt body = ValueReplacer(found->store, value).MutateStmt(loop->body);
      return ir::FreshCopy().MutateStmt(ir::For(loop->var, loop->min, loop->extent, loop->Kind(),
                                                body, loop->annotations, loop->span));
    };
    return ir::If(condition, with(found->choice->true_value), with(found->choice->false_value),
                  loop->span);
  }
};

}  // namespace

ir::Func HoistBranches(const ir::Func& func) {
  return func.WithBody(BranchHoister().MutateStmt(func->body));
}

}  // namespace tilelang::transform
