#include "lower/hide_remainders.h"

#include <string>
#include <utility>

#include "ir/changed_launch.h"
#include "ir/visitor.h"

namespace tilelang::lower {

using ir::Expr;
using ir::Stmt;
using ir::Var;

namespace {

const ir::BinaryNode* Quotient(const Expr& e, ir::BinaryOp op, const Var& dividend) {
  const auto* binary = e.as<ir::BinaryNode>();
  bool fits = binary != nullptr && binary->Op() == op && binary->a.same_as(dividend);
  return fits && ir::AsInt(binary->b).value_or(0) > 1 ? binary : nullptr;
}

// Replaces a thread's index in remainders that must be 0.
class RemainderRewriter : public ir::StmtMutator {
 public:
  RemainderRewriter(Var thread, Var copy) : thread_(std::move(thread)), copy_(std::move(copy)) {}
  bool used() const { return used_; }

  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::IfNode* op) override {
    Stmt branch = StmtMutator::Rewrite(op);
    const auto* changed = branch.as<ir::IfNode>();
    in_condition_ = true;
    Expr condition = Mutate(changed->condition);
    in_condition_ = false;
    return ir::If(condition, changed->then_case, changed->else_case, changed->span);
  }
  Expr Rewrite(const ir::BinaryNode* op) override {
    bool is_zero = in_condition_ && op->Op() == ir::BinaryOp::kEq && ir::IsConst(op->b, 0);
    const auto* rest = is_zero ? Quotient(op->a, ir::BinaryOp::kFloorMod, thread_) : nullptr;
    if (rest == nullptr) return StmtMutator::Rewrite(op);
    used_ = true;
    return ir::MakeBinary(op->Op(), ir::FloorMod(copy_, rest->b), op->b, op->span);
  }

 private:
  Var thread_;
  Var copy_;
  bool in_condition_ = false;
  bool used_ = false;
};

class RemainderHider : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::KernelLaunchNode* op) override {
    Stmt body = op->body;
    for (const Var& thread : op->thread_vars) body = Hide(body, thread);
    return ir::WithBody(op, body);
  }

 private:
  static Stmt Hide(const Stmt& body, const Var& thread) {
    bool divides = ir::HasExpr(body, [&](const Expr& e) {
      return Quotient(e, ir::BinaryOp::kFloorDiv, thread) != nullptr;
    });
    if (!divides) return body;
    Var copy(std::string(thread->name) + "_copy", thread.dtype());
    RemainderRewriter conditions(thread, copy);
    Stmt changed = conditions.MutateStmt(body);
    if (!conditions.used()) return body;
    ir::Map<ir::String, ir::Any> attrs;
    attrs.Set("header", ir::String("warp.h"));
    Expr value = ir::Call(thread.dtype(), "tl::copy_of", {thread}, attrs);
    return ir::MakeSeq({ir::Bind(copy, value, body.span()), changed});
  }
};

}  // namespace

ir::Func HideRemainders(const ir::Func& func) {
  return func.WithBody(RemainderHider().MutateStmt(func->body));
}

}  // namespace tilelang::lower
