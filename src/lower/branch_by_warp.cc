#include "lower/branch_by_warp.h"

#include <tvm/ffi/cast.h>

#include <string>

#include "analysis/kernel_scope.h"
#include "arith/structural.h"
#include "ir/async.h"
#include "ir/changed_launch.h"
#include "ir/visitor.h"
#include "target/warp.h"

namespace tilelang::lower {

using ir::Expr;
using ir::Stmt;

namespace {

// The index of the thread divided by multiples of 32, in conditions.
class ConditionRewriter : public ir::StmtMutator {
 public:
  ConditionRewriter(Expr thread, ir::Var warp) : thread_(std::move(thread)), warp_(warp) {}
  bool used() const { return used_; }

  using StmtMutator::Rewrite;
  Expr Rewrite(const ir::BinaryNode* op) override {
    auto number = ir::AsInt(op->b);
    bool of_thread = arith::SameStructure(op->a, thread_);
    if (!of_thread || !number || *number % kWarp != 0) return StmtMutator::Rewrite(op);
    Expr warps = ir::Const(ir::dtypes::kInt32, *number / kWarp);
    switch (op->Op()) {
      case ir::BinaryOp::kFloorDiv:
        used_ = true;
        return *number == kWarp ? Expr(warp_) : ir::FloorDiv(warp_, warps);
      case ir::BinaryOp::kLt:
        used_ = true;
        return warp_ < warps;
      case ir::BinaryOp::kGe:
        used_ = true;
        return warp_ >= warps;
      default:
        return StmtMutator::Rewrite(op);
    }
  }

 private:
  Expr thread_;
  ir::Var warp_;
  bool used_ = false;
};

class Rewriter : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    analysis::LaunchThreads threads = analysis::ThreadsOf(op);
    if (threads.count % kWarp != 0 || threads.count == kWarp) return tvm::ffi::GetRef<Stmt>(op);
    ir::Var warp("warp", ir::dtypes::kInt32);
    ConditionRewriter conditions(threads.linear, warp);
    conditions_ = &conditions;
    Stmt body = MutateStmt(op->body);
    if (!conditions.used()) return tvm::ffi::GetRef<Stmt>(op);
    ir::Map<ir::String, ir::Any> attrs;
    attrs.Set("header", ir::String("warp.h"));
    Expr index = ir::Call(ir::dtypes::kInt32, "tl::warp_index", {threads.linear}, attrs);
    body = ir::MakeSeq({ir::Bind(warp, index, op->body.span()), body});
    return ir::WithBody(op, body);
  }
  Stmt Rewrite(const ir::IfNode* op) override {
    Stmt branch = StmtMutator::Rewrite(op);
    const auto* changed = branch.as<ir::IfNode>();
    return ir::If(conditions_->Mutate(changed->condition), changed->then_case, changed->else_case,
                  changed->span);
  }
  // Barriers of warpgroups.
  Stmt Rewrite(const ir::BarrierNode* op) override { return conditions_->Rewrite(op); }
  Stmt Rewrite(const ir::ArriveNode* op) override { return conditions_->Rewrite(op); }
  Stmt Rewrite(const ir::WaitParityNode* op) override { return conditions_->Rewrite(op); }

 private:
  ConditionRewriter* conditions_ = nullptr;
};

}  // namespace

ir::Func BranchByWarp(const ir::Func& func, const Target& target) {
  if (!target->has_tma) return func;
  return ir::Func(func->name, func->params, Rewriter().MutateStmt(func->body), func->attrs,
                  func->span);
}

}  // namespace tilelang::lower
