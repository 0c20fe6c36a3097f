#include "transform/uniformity.h"

#include "ir/intrinsics.h"
#include "ir/visitor.h"

namespace tilelang::transform {

using namespace ir;  // NOLINT(google-build-using-namespace)

// Adds what varies under the present assumptions; run until nothing changes.
class VariationFinder : public StmtVisitor {
 public:
  using StmtVisitor::Visit;

  explicit VariationFinder(Uniformity* result) : result_(result) {}
  bool changed = false;

  void Visit(const BindNode* op) override {
    if (!result_->IsUniform(op->value)) Mark(&result_->varying_, op->var.get());
  }
  void Visit(const AllocNode* op) override {
    auto init = op->buffer->attrs.find("init");
    bool is_uniform =
        op->buffer->scope == "local.var" &&
        (init == op->buffer->attrs.end() || result_->IsUniform((*init).second.cast<Expr>()));
    if (op->buffer.IsLocal() && !is_uniform) Mark(&result_->varying_, op->buffer.get());
  }
  void Visit(const StoreNode* op) override {
    if (op->buffer.IsGlobal()) Mark(&result_->written_, op->buffer.get());
    if (op->buffer->scope == "local.var" && (divergent_ || !result_->IsUniform(op->value))) {
      Mark(&result_->varying_, op->buffer.get());
    }
  }
  void Visit(const CopyNode* op) override {
    if (op->dst->buffer.IsGlobal()) Mark(&result_->written_, op->dst->buffer.get());
    if (op->dst->buffer.IsLocal()) Mark(&result_->varying_, op->dst->buffer.get());
  }
  void Visit(const EvaluateNode* op) override {
    WalkExprs(op->value, [&](const Expr& e) {
      if (const auto* call = e.as<CallNode>()) {
        for (const MemoryEffect& effect : CallEffects(call)) {
          if (!effect.write) continue;
          if (effect.buffer.IsGlobal()) Mark(&result_->written_, effect.buffer.get());
          if (effect.buffer.IsLocal()) Mark(&result_->varying_, effect.buffer.get());
        }
      }
      return true;
    });
  }
  void Visit(const IfNode* op) override {
    bool outer = divergent_;
    bool outer_in_loop = divergent_in_loop_;
    bool varying = !result_->IsUniform(op->condition);
    divergent_ |= varying;
    divergent_in_loop_ |= varying;
    VisitStmt(op->then_case);
    if (op->else_case.defined()) VisitStmt(op->else_case);
    divergent_ = outer;
    divergent_in_loop_ = outer_in_loop;
  }
  void Visit(const ForNode* op) override {
    bool uniform = result_->IsUniform(op->min) && result_->IsUniform(op->extent);
    if (!uniform) Mark(&result_->varying_, op->var.get());
    Loop(op, op->body, uniform);
  }
  void Visit(const WhileNode* op) override {
    Loop(op, op->body, result_->IsUniform(op->condition));
  }
  void Visit(const BreakNode* op) override { Leave(); }
  void Visit(const ContinueNode* op) override { Leave(); }

 private:
  void Mark(std::unordered_set<const ffi::Object*>* set, const ffi::Object* object) {
    changed |= set->insert(object).second;
  }
  void Loop(const StmtNode* loop, const Stmt& body, bool uniform) {
    if (!uniform) Mark(&result_->varying_loops_, loop);
    bool outer = divergent_;
    bool outer_in_loop = divergent_in_loop_;
    const StmtNode* outer_loop = loop_;
    loop_ = loop;
    divergent_ |= !result_->IsUniformLoop(loop);
    divergent_in_loop_ = false;
    VisitStmt(body);
    divergent_ = outer;
    divergent_in_loop_ = outer_in_loop;
    loop_ = outer_loop;
  }
  void Leave() {
    if (divergent_in_loop_ && loop_ != nullptr) Mark(&result_->varying_loops_, loop_);
  }

  Uniformity* result_;
  const StmtNode* loop_ = nullptr;
  bool divergent_ = false;
  bool divergent_in_loop_ = false;  // between the loop and here
};

Uniformity::Uniformity(const KernelLaunchNode* launch) {
  for (const Var& var : launch->thread_vars) varying_.insert(var.get());
  bool changed = true;
  while (changed) {
    VariationFinder finder(this);
    finder.VisitStmt(launch->body);
    changed = finder.changed;
  }
}

bool Uniformity::IsUniform(const Expr& e) const {
  bool uniform = true;
  WalkExprs(e, [&](const Expr& part) {
    if (part->kind == ExprKind::kVar) {
      uniform &= !varying_.count(part.get());
    } else if (const auto* load = part.as<LoadNode>()) {
      const Buffer& buffer = load->buffer;
      bool shared_by_all = buffer.IsShared() || buffer->scope == "local.var" ||
                           (buffer.IsGlobal() && !written_.count(buffer.get()));
      uniform &= shared_by_all && !varying_.count(buffer.get());
    } else if (const auto* call = part.as<CallNode>()) {
      const Intrinsic* intrinsic = FindIntrinsic({call->name.data(), call->name.size()});
      bool votes = intrinsic != nullptr && intrinsic->sync == SyncKind::kCta;
      uniform &= intrinsic != nullptr && (intrinsic->pure || votes);
    }
    return uniform;
  });
  return uniform;
}

}  // namespace tilelang::transform
