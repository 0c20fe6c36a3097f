// Elements that several iterations of T.Parallel update, or write different values to.
#include <algorithm>
#include <utility>
#include <vector>

#include "check/check_parts.h"
#include "ir/error.h"
#include "ir/visitor.h"

namespace tilelang::check {

namespace {

using ir::Expr;
using ir::Var;

class UpdateChecker : public ir::StmtVisitor {
 public:
  using StmtVisitor::Visit;

  void Visit(const ir::ParallelForNode* op) override {
    for (size_t d = 0; d < op->vars.size(); ++d) {
      if (!ir::IsConst(op->extents[d], 1)) vars_.push_back(op->vars[d]);
    }
    StmtVisitor::Visit(op);
    vars_.clear();
    names_ = {};
  }
  void Visit(const ir::BindNode* op) override {
    StmtVisitor::Visit(op);
    if (!vars_.empty()) names_.Set(op->var, Expanded(op->value));
  }
  void Visit(const ir::ForNode* op) override {
    // What it runs over may begin elsewhere in each iteration.
    if (!vars_.empty()) names_.Set(op->var, Expanded(op->min) + op->var);
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::IfNode* op) override {
    conditions_.push_back(Expanded(op->condition));
    StmtVisitor::Visit(op);
    conditions_.pop_back();
  }
  void Visit(const ir::StoreNode* op) override {
    StmtVisitor::Visit(op);
    if (vars_.empty() || op->buffer.IsLocal()) return;
    bool updates = IsUpdate(op);
    Expr value = Expanded(op->value);
    for (const Var& var : vars_) {
      if ((!updates && !ir::UsesVar(value, var)) || SelectedBy(var, op)) continue;
      updates ? RefuseUpdate(op, var) : RefuseValues(op, var);
    }
  }

 private:
  Expr Expanded(const Expr& e) const { return ir::Substitute(e, names_); }

  // The value is computed from the element that it replaces.
  bool IsUpdate(const ir::StoreNode* op) {
    bool found = false;
    ir::WalkExprs(Expanded(op->value), [&](const Expr& e) {
      const auto* load = e.as<ir::LoadNode>();
      found |= load != nullptr && load->buffer.same_as(op->buffer) && SameElement(load, op);
      return !found;
    });
    return found;
  }

  bool SameElement(const ir::LoadNode* load, const ir::StoreNode* store) {
    for (size_t d = 0; d < store->indices.size(); ++d) {
      Expr index = Expanded(store->indices[d]);
      if (!analyzer_.CanProveEqual(Expanded(load->indices[d]), index)) return false;
    }
    return true;
  }

  // Iterations that differ in `var` alone may write other elements, or one of them alone writes.
  bool SelectedBy(const Var& var, const ir::StoreNode* op) const {
    auto depends = [&](const Expr& e) {
      bool found = ir::UsesVar(e, var);
      // What a variable of the thread holds may differ between iterations.
      ir::WalkExprs(e, [&](const Expr& part) {
        const auto* load = part.as<ir::LoadNode>();
        found |= load != nullptr && load->buffer.IsLocal();
        return !found;
      });
      return found;
    };
    return std::any_of(op->indices.begin(), op->indices.end(),
                       [&](const Expr& index) { return depends(Expanded(index)); }) ||
           std::any_of(conditions_.begin(), conditions_.end(), depends);
  }

  [[noreturn]] static void RefuseValues(const ir::StoreNode* op, const Var& var) {
    std::string name(var->name);
    TL_USER_ERROR(kSemantics, op->span,
                  "iterations of T.Parallel that differ in "
                      << name << " write values of their own to one element of "
                      << std::string(op->buffer->name)
                      << ", and run side by side: which one stays is not known. Write it under a "
                         "condition on "
                      << name << ", reduce (T.reduce_max or the like), or let T.serial run over "
                      << name << " around T.Parallel");
  }
  [[noreturn]] static void RefuseUpdate(const ir::StoreNode* op, const Var& var) {
    TL_USER_ERROR(kSemantics, op->span,
                  "iterations of T.Parallel that differ in "
                      << std::string(var->name) << " update one element of "
                      << std::string(op->buffer->name)
                      << ", and run side by side: updates would be lost. Use T.reduce_sum or the "
                         "like, T.alloc_reducer, or T.atomic_add on shared or global memory; or "
                         "let T.serial run over "
                      << std::string(var->name) << " around T.Parallel");
  }

  std::vector<Var> vars_;  // of the loop around; of more than one iteration
  std::vector<Expr> conditions_;
  ir::Map<Var, Expr> names_;
  arith::Analyzer analyzer_;
};

}  // namespace

void CheckUpdates(const ir::Func& func) { UpdateChecker().VisitStmt(func->body); }

}  // namespace tilelang::check
