// Checks that all threads get to a barrier or an election that waits for them.
#include <tvm/ffi/cast.h>

#include "analysis/thread_set.h"
#include "check/check_parts.h"
#include "ir/async.h"
#include "ir/printer.h"
#include "ir/visitor.h"
#include "target/warp.h"

namespace tilelang::check {

using ir::Stmt;

bool HasBlockBarrier(const Stmt& s) {
  auto waits = [](const Stmt& part) {
    const auto* barrier = part.as<ir::BarrierNode>();
    return barrier != nullptr && barrier->IsForBlock();
  };
  return ir::HasCall(s, ir::Builtin::kBlockVote) || ir::HasStmt(s, waits);
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
    if (op->Is(ir::Builtin::kBlockVote)) CheckBlock(op);
    if (op->Is(ir::Builtin::kElectOne) && !IsWholeWarps()) Fail(op, "a warp");
  }
  void Visit(const ir::BarrierNode* op) override {
    StmtVisitor::Visit(op);
    ir::Call call = ir::CallFor(tvm::ffi::GetRef<Stmt>(op));
    if (op->IsForBlock()) CheckBlock(call.get());
    bool range = op->Kind() == ir::BarrierKind::kRange;
    bool all = !range || active_ == threads_.Of({op->threads[0], op->threads[1]});
    if (!all) Fail(call.get(), "its range");
  }

 private:
  bool IsWholeWarps() const {
    for (int64_t i = 0; i < threads_.count(); ++i) {
      if (active_.Has(i) != active_.Has(i / kWarp * kWarp)) return false;
    }
    return true;
  }
  void CheckBlock(const ir::CallNode* op) {
    if (!active_.IsWholeBlock() && !active_.IsEmpty()) Fail(op, "the block");
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
