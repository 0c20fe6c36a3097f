// Remarks on tiles that are read before anything is written to them, in program order.
#include <string_view>
#include <unordered_set>

#include "check/check_parts.h"
#include "ir/effects.h"
#include "ir/remark.h"
#include "ir/visitor.h"

namespace tilelang::check {

namespace {

// Returns advice for a read of old values.
std::string Advice(const ir::Effect& effect) {
  if (effect.kind != ir::EffectKind::kAccumulate) return "";
  if (effect.By<ir::GemmNode>() != nullptr) {
    return "; T.gemm adds to it: T.clear it first, or pass clear_accum";
  }
  return "; the reduction adds to it: pass clear=True, or T.fill";
}

// Returns whether the statement needs the old values. A GEMM that may clear them is trusted to do
// so.
bool NeedsOldValue(const ir::Effect& effect) {
  if (effect.kind == ir::EffectKind::kRead) return true;
  if (effect.kind != ir::EffectKind::kAccumulate) return false;
  const auto* gemm = effect.By<ir::GemmNode>();
  return gemm == nullptr || ir::IsConst(gemm->clear_accum, 0);
}

// The nodes that a condition may skip: statements, and loads in expressions.
class ConditionalNodes : public ir::StmtVisitor {
 public:
  using ir::StmtVisitor::Visit;
  void VisitStmt(const ir::Stmt& s) override {
    Keep(s.get());
    ir::StmtVisitor::VisitStmt(s);
  }
  void Visit(const ir::LoadNode* op) override {
    Keep(op);
    ir::StmtVisitor::Visit(op);
  }
  void Visit(const ir::IfNode* op) override {
    VisitExpr(op->condition);
    ++conditions_;
    VisitStmt(op->then_case);
    if (op->else_case.defined()) VisitStmt(op->else_case);
    --conditions_;
  }
  void Visit(const ir::WhileNode* op) override {
    ++conditions_;
    ir::StmtVisitor::Visit(op);
    --conditions_;
  }
  void Visit(const ir::SelectNode* op) override {
    VisitExpr(op->condition);
    ++conditions_;
    VisitExpr(op->true_value);
    VisitExpr(op->false_value);
    --conditions_;
  }
  void Visit(const ir::BinaryNode* op) override {
    VisitExpr(op->a);
    bool skips = op->Op() == ir::BinaryOp::kAnd || op->Op() == ir::BinaryOp::kOr;
    conditions_ += skips ? 1 : 0;
    VisitExpr(op->b);
    conditions_ -= skips ? 1 : 0;
  }

  bool Contains(const tvm::ffi::Object* node) const { return found_.count(node) != 0; }

 private:
  void Keep(const tvm::ffi::Object* node) {
    if (conditions_ > 0) found_.insert(node);
  }

  std::unordered_set<const tvm::ffi::Object*> found_;
  int conditions_ = 0;
};

}  // namespace

void RemarkUninitialized(const ir::Func& func) {
  ConditionalNodes conditional;
  conditional.VisitStmt(func->body);
  std::unordered_set<const tvm::ffi::Object*> written;
  ir::WalkEffects(func->body, [&](const ir::Effect& effect) {
    const ir::Buffer& buffer = effect.buffer;
    if (buffer.IsGlobal() || buffer.IsBarrier()) return;
    if (!written.insert(buffer.get()).second || !NeedsOldValue(effect)) return;
    // An earlier iteration may have written what a condition lets a later one read.
    std::string_view topic = conditional.Contains(effect.node) ? "check" : "uninitialized";
    Remark(effect.span, std::string(topic),
           Describe(buffer) + " is read before anything is written to it" + Advice(effect));
  });
}

}  // namespace tilelang::check
