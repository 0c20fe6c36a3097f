// Whether the threads that a barrier or an election waits for all get there.
#include "analysis/thread_set.h"
#include "check/check_parts.h"
#include "ir/intrinsics.h"
#include "ir/printer.h"
#include "ir/visitor.h"
#include "target/warp.h"

namespace tilelang::check {

using ir::Stmt;

bool WaitsForBlock(const ir::CallNode* call) {
  const ir::Intrinsic* intrinsic = ir::FindIntrinsic({call->name.data(), call->name.size()});
  bool named = call->name == "sync_range" || (call->name == "sync_threads" && !call->args.empty());
  return intrinsic != nullptr && intrinsic->participants == ir::Participants::kCta && !named;
}

bool HasBlockBarrier(const Stmt& s) {
  bool found = false;
  ir::WalkExprs(s, [&](const ir::Expr& e) {
    const auto* call = e.as<ir::CallNode>();
    found = found || (call != nullptr && WaitsForBlock(call));
    return !found;
  });
  return found;
}

namespace {

// Follows conditions on the thread index alone; what others decide is not known here.
class ArrivalVerifier : public ir::StmtVisitor {
 public:
  ArrivalVerifier(const ir::KernelLaunchNode* launch, const Raise& raise)
      : threads_(launch), active_(threads_.All()), raise_(raise) {}

  using StmtVisitor::Visit;
  void VisitStmt(const Stmt& s) override {
    ir::Span outer = span_;
    if (s.span().defined()) span_ = s.span();
    StmtVisitor::VisitStmt(s);
    span_ = outer;
  }
  void Visit(const ir::BindNode* op) override {
    StmtVisitor::Visit(op);
    threads_.Bind(op->var, op->value);
  }
  void Visit(const ir::IfNode* op) override {
    VisitExpr(op->condition);
    analysis::ThreadSet outer = active_;
    analysis::ThreadSelection selection = threads_.Select(op->condition, outer);
    // Both sides have a barrier: they synchronize there.
    bool together =
        op->else_case.defined() && HasBlockBarrier(op->then_case) && HasBlockBarrier(op->else_case);
    if (!together) active_ = selection.threads;
    VisitStmt(op->then_case);
    if (!together && selection.rest.empty()) active_ = outer - selection.threads;
    if (!selection.rest.empty()) active_ = outer;
    if (op->else_case.defined()) VisitStmt(op->else_case);
    active_ = outer;
  }
  void Visit(const ir::CallNode* op) override {
    StmtVisitor::Visit(op);
    if (WaitsForBlock(op) && !active_.IsWholeBlock() && !active_.IsEmpty()) Fail(op, "the block");
    if (op->name == "elect_one" && !IsWholeWarps()) Fail(op, "a warp");
    if (op->name == "sync_range") CheckRange(op);
  }

 private:
  bool IsWholeWarps() const {
    for (int64_t i = 0; i < threads_.count(); ++i) {
      if (active_.Has(i) != active_.Has(i / kWarp * kWarp)) return false;
    }
    return true;
  }
  void CheckRange(const ir::CallNode* op) {
    op::ThreadRange range{*ir::AsInt(op->args[0]), *ir::AsInt(op->args[1])};
    if (active_ != threads_.Of(range)) Fail(op, "its range");
  }
  void Fail(const ir::CallNode* op, const char* group) {
    raise_(ir::ErrorClass::kSemantics, span_,
           std::string(op->name) + " waits for all threads of " + group + ", but only " +
               active_.ToString() + " arrive");
  }

  analysis::BlockThreads threads_;
  analysis::ThreadSet active_;
  const Raise& raise_;
  ir::Span span_;
};

}  // namespace

void CheckThreadsArrive(const ir::Func& func, const Raise& raise) {
  ir::WalkStmts(func->body, [&](const Stmt& s) {
    const auto* launch = s.as<ir::KernelLaunchNode>();
    if (launch != nullptr) ArrivalVerifier(launch, raise).VisitStmt(launch->body);
    return launch == nullptr;
  });
}

}  // namespace tilelang::check
