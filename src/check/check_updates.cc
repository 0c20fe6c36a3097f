// Elements that several iterations of T.Parallel update, or write different values to.
#include <algorithm>
#include <utility>
#include <vector>

#include "check/check_parts.h"
#include "check/writing_iterations.h"
#include "ir/build.h"
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
    arith::Analyzer::Scope scope(&analyzer_);
    for (size_t d = 0; d < op->vars.size(); ++d) {
      auto extent = ir::AsInt(op->extents[d]);
      if (!extent || *extent <= 1) continue;
      iterations_.push_back({op->vars[d], *extent});
      analyzer_.Bind(op->vars[d], ir::IntImm(op->vars[d].dtype(), 0), op->extents[d]);
    }
    StmtVisitor::Visit(op);
    iterations_.clear();
    names_ = {};
  }
  void Visit(const ir::BindNode* op) override {
    StmtVisitor::Visit(op);
    if (!iterations_.empty()) names_.Set(op->var, Expanded(op->value));
  }
  void Visit(const ir::ForNode* op) override {
    // The loop may begin elsewhere in each outer iteration.
    if (!iterations_.empty()) names_.Set(op->var, Expanded(op->min) + op->var);
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::IfNode* op) override {
    VisitExpr(op->condition);
    Expr condition = Expanded(op->condition);
    conditions_.push_back(condition);
    VisitStmt(op->then_case);
    conditions_.back() = ir::MakeUnary(ir::UnaryOp::kNot, condition, op->span);
    if (op->else_case.defined()) VisitStmt(op->else_case);
    conditions_.pop_back();
  }
  void Visit(const ir::StoreNode* op) override {
    StmtVisitor::Visit(op);
    if (iterations_.empty() || op->buffer.IsLocal()) return;
    bool updates = IsUpdate(op);
    Expr value = analyzer_.Simplify(Expanded(op->value));
    for (const Iterations& each : iterations_) {
      if ((!updates && !ir::UsesVar(value, each.var)) || SelectedBy(each, op)) continue;
      updates ? RefuseUpdate(op, each.var) : RefuseValues(op, each.var);
    }
  }

 private:
  Expr Expanded(const Expr& e) const { return ir::Substitute(e, names_); }

  // The value is computed from the element that it replaces.
  bool IsUpdate(const ir::StoreNode* op) {
    return ir::HasExpr(Expanded(op->value), [&](const Expr& e) {
      const auto* load = e.as<ir::LoadNode>();
      return load != nullptr && load->buffer.same_as(op->buffer) && SameElement(load, op);
    });
  }

  bool SameElement(const ir::LoadNode* load, const ir::StoreNode* store) {
    for (size_t d = 0; d < store->indices.size(); ++d) {
      Expr index = Expanded(store->indices[d]);
      if (!analyzer_.CanProveEqual(Expanded(load->indices[d]), index)) return false;
    }
    return true;
  }

  // Iterations that differ in one variable alone may write other elements, or one of them writes.
  bool SelectedBy(const Iterations& each, const ir::StoreNode* op) {
    auto depends = [&](const Expr& index) {
      return DependsOn(analyzer_.Simplify(Expanded(index)), each.var);
    };
    return std::any_of(op->indices.begin(), op->indices.end(), depends) ||
           MayLeaveOne(conditions_, each);
  }

  [[noreturn]] static void RefuseValues(const ir::StoreNode* op, const Var& var) {
    std::string name(var->name);
    TL_USER_ERROR(kSemantics, op->span,
                  "iterations of T.Parallel that differ in "
                      << name << " write different values to one element of "
                      << std::string(op->buffer->name)
                      << ", and run at the same time: any of the values may remain. Write it under "
                         "a condition on "
                      << name << ", reduce (T.reduce_max or the like), or let T.serial run over "
                      << name << " around T.Parallel");
  }
  [[noreturn]] static void RefuseUpdate(const ir::StoreNode* op, const Var& var) {
    TL_USER_ERROR(
        kSemantics, op->span,
        "iterations of T.Parallel that differ in "
            << std::string(var->name) << " update one element of " << std::string(op->buffer->name)
            << ", and run at the same time: updates would be lost. Use T.reduce_sum or the "
               "like, T.alloc_reducer, or T.atomic_add on shared or global memory; or "
               "let T.serial run over "
            << std::string(var->name) << " around T.Parallel");
  }

  std::vector<Iterations> iterations_;  // of the loop around; of more than one iteration
  std::vector<Expr> conditions_;
  ir::Map<Var, Expr> names_;
  arith::Analyzer analyzer_;
};

}  // namespace

void CheckUpdates(const ir::Func& func) { UpdateChecker().VisitStmt(func->body); }

}  // namespace tilelang::check
