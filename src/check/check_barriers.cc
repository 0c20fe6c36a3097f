// Barriers of the whole block where not every thread arrives.
#include <tvm/ffi/cast.h>

#include <unordered_set>

#include "analysis/scoped_visitor.h"
#include "analysis/thread_set.h"
#include "analysis/uniformity.h"
#include "check/check_parts.h"
#include "ir/async.h"
#include "ir/error.h"
#include "ir/printer.h"
#include "op/issue.h"

namespace tilelang::check {

namespace {

using ir::Expr;
using ir::Stmt;

// Finds the variables and "local.var" buffers that certainly depend on the index of the thread. The
// values of other memory may be the same in all threads.
class ThreadDependence : public ir::StmtVisitor {
 public:
  using StmtVisitor::Visit;

  explicit ThreadDependence(const ir::KernelLaunchNode* launch) {
    for (const ir::Var& var : launch->thread_vars) depends_.insert(var.get());
    for (size_t before = 0; before != depends_.size();) {
      before = depends_.size();
      VisitStmt(launch->body);
    }
  }

  bool Depends(const Expr& e) const {
    bool found = false;
    ir::WalkExprs(e, [&](const Expr& part) {
      found = found || depends_.count(part.get()) != 0;
      if (const auto* load = part.as<ir::LoadNode>()) {
        found = found || depends_.count(load->buffer.get()) != 0;
      }
      found = found || op::IsElection(part);
      const auto* call = part.as<ir::CallNode>();
      return !found && !(call != nullptr && call->Is(ir::Builtin::kBlockVote));
    });
    return found;
  }

  void Visit(const ir::BindNode* op) override {
    if (Depends(op->value)) depends_.insert(op->var.get());
  }
  void Visit(const ir::AllocNode* op) override {
    auto init = op->buffer->attrs.find("init");
    if (init != op->buffer->attrs.end() && Depends((*init).second.cast<Expr>())) {
      depends_.insert(op->buffer.get());
    }
  }
  void Visit(const ir::StoreNode* op) override {
    if (op->buffer->scope != "local.var") return;
    if (divergent_ || Depends(op->value)) depends_.insert(op->buffer.get());
  }
  void Visit(const ir::IfNode* op) override {
    Within(Depends(op->condition), [&] { StmtVisitor::Visit(op); });
  }
  void Visit(const ir::WhileNode* op) override {
    Within(Depends(op->condition), [&] { StmtVisitor::Visit(op); });
  }
  void Visit(const ir::ForNode* op) override {
    bool varies = Depends(op->min) || Depends(op->extent);
    if (varies) depends_.insert(op->var.get());
    Within(varies, [&] { StmtVisitor::Visit(op); });
  }

 private:
  template <typename Fn>
  void Within(bool divergent, const Fn& visit) {
    bool outer = divergent_;
    divergent_ = divergent_ || divergent;
    visit();
    divergent_ = outer;
  }

  std::unordered_set<const tvm::ffi::Object*> depends_;
  bool divergent_ = false;
};

class BarrierChecker : public analysis::ScopedVisitor {
 public:
  explicit BarrierChecker(const ir::KernelLaunchNode* launch)
      : dependence_(launch), threads_(launch) {}
  using ScopedVisitor::Visit;

  void VisitStmt(const Stmt& s) override {
    ir::Span outer = span_;
    if (s.span().defined()) span_ = s.span();
    ScopedVisitor::VisitStmt(s);
    span_ = outer;
  }
  void Visit(const ir::IfNode* op) override {
    bool divides = Divides(op->condition) && !SyncInBothBranches(op);
    Within(divides ? "under `" + ir::Print(op->condition) + "`" : "",
           [&] { ScopedVisitor::Visit(op); });
  }
  void Visit(const ir::ForNode* op) override {
    bool divides = Divides(op->min) || Divides(op->extent);
    Loop(divides ? ir::Print(op->extent) : "", op->body, [&] { ScopedVisitor::Visit(op); });
  }
  void Visit(const ir::WhileNode* op) override {
    bool divides = Divides(op->condition);
    Loop(divides ? ir::Print(op->condition) : "", op->body, [&] { ScopedVisitor::Visit(op); });
  }
  void Visit(const ir::BindNode* op) override {
    ScopedVisitor::Visit(op);
    threads_.Bind(op->var, op->value);
  }
  void Visit(const ir::CallNode* op) override {
    if (op->Is(ir::Builtin::kBlockVote)) Check(op);
    ScopedVisitor::Visit(op);
  }
  void Visit(const ir::BarrierNode* op) override {
    if (op->IsForBlock()) Check(ir::CallFor(tvm::ffi::GetRef<Stmt>(op)).get());
  }

 private:
  void Check(const ir::CallNode* op) const {
    if (!reason_.empty()) {
      TL_USER_ERROR(
          kSemantics, op->span.defined() ? op->span : span_,
          "T." << std::string(op->name) << " waits for all " << threads_.count()
               << " threads of the block, but stands " << reason_
               << ", which differs between the threads: the threads that arrive would wait forever "
                  "for the others. Move it to a place that every thread reaches, or name the "
                  "threads that synchronize: T.sync_threads(barrier_id, number_of_threads)");
    }
  }
  bool Divides(const Expr& e) { return dependence_.Depends(analyzer_.Simplify(e)); }
  // Both branches have a barrier, and whole warps take either.
  bool SyncInBothBranches(const ir::IfNode* op) const {
    if (!op->else_case.defined() || !HasBlockBarrier(op->then_case) ||
        !HasBlockBarrier(op->else_case)) {
      return false;
    }
    auto taken = threads_.Where(op->condition);
    return taken && taken->AsWarps();
  }

  template <typename Fn>
  void Within(const std::string& reason, const Fn& visit) {
    std::string outer = reason_;
    if (!reason.empty()) reason_ = reason;
    visit();
    reason_ = outer;
  }
  template <typename Fn>
  void Loop(const std::string& bound, const Stmt& body, const Fn& visit) {
    std::string reason = bound.empty() ? "" : "in a loop bounded by `" + bound + "`";
    if (reason.empty()) {
      if (auto condition = Exit(body)) {
        reason = "in a loop that threads leave or skip under `" + ir::Print(*condition) + "`";
      }
    }
    Within(reason, visit);
  }
  // The condition under which some threads break or continue the loop of this body.
  std::optional<Expr> Exit(const Stmt& body) {
    std::optional<Expr> found;
    ir::WalkStmts(body, [&](const Stmt& s) {
      if (s->kind == ir::StmtKind::kFor || s->kind == ir::StmtKind::kWhile) return false;
      const auto* branch = s.as<ir::IfNode>();
      if (branch == nullptr || !Divides(branch->condition)) return !found.has_value();
      bool leaves = ir::MayLeaveLoop(branch->then_case) ||
                    (branch->else_case.defined() && ir::MayLeaveLoop(branch->else_case));
      if (leaves && !found) found = branch->condition;
      return !found.has_value();
    });
    return found;
  }

  ThreadDependence dependence_;
  analysis::BlockThreads threads_;
  std::string reason_;  // why not all threads get here; empty when they do
  ir::Span span_;
};

}  // namespace

void CheckBarriers(const ir::Func& func) {
  ir::WalkStmts(func->body, [&](const Stmt& s) {
    const auto* launch = s.as<ir::KernelLaunchNode>();
    if (launch != nullptr && HasBlockBarrier(launch->body)) BarrierChecker(launch).VisitStmt(s);
    return launch == nullptr;
  });
}

}  // namespace tilelang::check
