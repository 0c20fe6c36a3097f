#include "verify/control.h"

#include <utility>

#include "analysis/uniformity.h"
#include "ir/async.h"
#include "ir/visitor.h"
#include "verify/operation.h"
#include "verify/site_finder.h"

namespace tilelang::verify {

using ir::Expr;
using ir::Stmt;

namespace {

// Finds the branches whose two sides touch shared memory, if all threads take the same side
// together.
class ChoiceFinder : public ir::StmtVisitor {
 public:
  ChoiceFinder(const ir::KernelLaunchNode* launch, std::unordered_set<const ir::ffi::Object*>* out)
      : uniformity_(launch), active_(uniformity_.threads().All()), out_(out) {}

  using StmtVisitor::Visit;
  void Visit(const ir::IfNode* op) override {
    analysis::ThreadSet outer = active_;
    analysis::ThreadSelection selection = uniformity_.threads().Select(op->condition, outer);
    bool divides = selection.rest.empty() && selection.threads != outer;
    if (op->else_case.defined() && !divides && uniformity_.IsUniform(op->condition, outer) &&
        TouchesShared(op->then_case) && TouchesShared(op->else_case)) {
      out_->insert(op);
    }
    active_ = selection.threads;
    VisitStmt(op->then_case);
    active_ = selection.rest.empty() ? outer - selection.threads : outer;
    if (op->else_case.defined()) VisitStmt(op->else_case);
    active_ = std::move(outer);
  }

 private:
  analysis::Uniformity uniformity_;
  analysis::ThreadSet active_;  // by the conditions on the thread index around
  std::unordered_set<const ir::ffi::Object*>* out_;
};

}  // namespace

// Marks control statements and the values that they need, in one pass. The caller repeats the pass
// until nothing changes.
class ControlFinder {
 public:
  explicit ControlFinder(Control* result) : result_(result) {}
  bool changed = false;

  // Returns whether the statement decides anything.
  bool Visit(const Stmt& s) {
    bool control = false;
    switch (s->kind) {
      case ir::StmtKind::kSeq:
        for (const Stmt& child : s.as<ir::SeqNode>()->stmts) control |= Visit(child);
        break;
      case ir::StmtKind::kIf:
        control = VisitIf(s);
        break;
      case ir::StmtKind::kFor: {
        const auto* op = s.as<ir::ForNode>();
        NeedIndices(op->extent);
        control = Visit(op->body) && op->Kind() != ir::ForKind::kVectorized;
        if (control) Need(op->min);
        if (control) Need(op->extent);
        break;
      }
      case ir::StmtKind::kWhile: {
        const auto* op = s.as<ir::WhileNode>();
        NeedIndices(op->condition);
        control = Visit(op->body) | HasOperation(op->condition);
        if (control) Need(op->condition);
        break;
      }
      default:
        control = VisitLeaf(s);
    }
    if (control) changed |= result_->control_.insert(s.get()).second;
    return control;
  }

 private:
  bool VisitIf(const Stmt& s) {
    const auto* op = s.as<ir::IfNode>();
    NeedIndices(op->condition);
    bool control = result_->IsChoice(s);
    control |= Visit(op->then_case);
    if (op->else_case.defined()) control |= Visit(op->else_case);
    control |= HasOperation(op->condition);
    if (control) Need(op->condition);
    return control;
  }

  bool VisitLeaf(const Stmt& s) {
    NeedIndicesOf(s);
    if (s->kind == ir::StmtKind::kBreak || s->kind == ir::StmtKind::kContinue) return true;
    if (const auto* op = s.as<ir::BindNode>()) {
      if (result_->needed_.count(op->var.get()) != 0) Need(op->value);
      return HasOperation(op->value);
    }
    if (const auto* op = s.as<ir::StoreNode>()) {
      if (result_->needed_.count(op->buffer.get()) == 0) return HasOperation(op->value);
      for (const Expr& index : op->indices) Need(index);
      Need(op->value);
      return true;
    }
    if (const auto* op = s.as<ir::AllocNode>()) {
      auto init = op->buffer->attrs.Get("init");
      if (!init || result_->needed_.count(op->buffer.get()) == 0) return false;
      Need((*init).cast<Expr>());
      return true;
    }
    if (!HasOperation(s)) return false;
    for (const Expr& arg : CallOf(s)->args) Need(arg);
    return true;
  }

  void Need(const Expr& e) {
    ir::WalkExprs(e, [&](const Expr& part) {
      // An argument whose address is taken is not read, but its indices are.
      if (ir::AddressedElement(part)) {
        for (const Expr& i : part.as<ir::CallNode>()->args[0].as<ir::LoadNode>()->indices) Need(i);
        return false;
      }
      const auto* load = part.as<ir::LoadNode>();
      bool local = load != nullptr && load->buffer.IsLocal();
      if (part->kind == ir::ExprKind::kVar) changed |= result_->needed_.insert(part.get()).second;
      if (local) changed |= result_->needed_.insert(load->buffer.get()).second;
      return true;
    });
  }

  // Adds the values that indices of shared memory depend on.
  void NeedIndices(const Expr& e) {
    ir::WalkExprs(e, [&](const Expr& part) {
      const auto* load = part.as<ir::LoadNode>();
      if (load == nullptr || load->buffer.IsLocal() || load->buffer.IsGlobal()) return true;
      for (const Expr& index : load->indices) Need(index);
      return true;
    });
  }
  void NeedIndicesOf(const Stmt& s) {
    const auto* store = s.as<ir::StoreNode>();
    if (store != nullptr && store->buffer.IsShared()) {
      for (const Expr& index : store->indices) Need(index);
    }
    if (store != nullptr) NeedIndices(store->value);
    if (const auto* bind = s.as<ir::BindNode>()) NeedIndices(bind->value);
    if (const auto* evaluate = s.as<ir::EvaluateNode>()) NeedIndices(evaluate->value);
  }

  Control* result_;
};

Control::Control(const ir::KernelLaunchNode* launch) {
  ChoiceFinder(launch, &choices_).VisitStmt(launch->body);
  for (bool changed = true; changed;) {
    ControlFinder finder(this);
    finder.Visit(launch->body);
    changed = finder.changed;
  }
}

}  // namespace tilelang::verify
