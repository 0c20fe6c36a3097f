// Remarks on tiles that are read before anything is written to them, in program order.
#include <unordered_set>

#include "ir/intrinsics.h"
#include "ir/visitor.h"
#include "transform/check_parts.h"
#include "transform/remark.h"

namespace tilelang::transform {

namespace {

class FirstUse : public ir::StmtVisitor {
 public:
  using StmtVisitor::Visit;

  void VisitStmt(const ir::Stmt& s) override {
    ir::Span outer = span_;
    if (s.span().defined()) span_ = s.span();
    StmtVisitor::VisitStmt(s);
    span_ = outer;
  }

  void Visit(const ir::LoadNode* op) override {
    Read(op->buffer, "");
    VisitExprs(op->indices);
  }
  void Visit(const ir::CallNode* op) override {
    for (const ir::MemoryEffect& effect : ir::CallEffects(op)) {
      if (effect.write) written_.insert(effect.buffer.get());
    }
    // Addresses are taken, not read; what an unknown callee does with them is not known.
    for (const ir::Expr& arg : op->args) {
      const auto* address = arg.as<ir::CallNode>();
      if (address != nullptr && address->name == "address_of") {
        if (const auto* load = address->args[0].as<ir::LoadNode>()) {
          written_.insert(load->buffer.get());
        }
      }
    }
    StmtVisitor::Visit(op);
  }
  void Visit(const ir::StoreNode* op) override {
    VisitExprs(op->indices);
    VisitExpr(op->value);
    written_.insert(op->buffer.get());
  }
  void Visit(const ir::AllocNode* op) override {
    if (op->buffer->attrs.count("init") != 0) written_.insert(op->buffer.get());
  }
  void Visit(const ir::CopyNode* op) override {
    Read(op->src->buffer, "");
    written_.insert(op->dst->buffer.get());
  }
  void Visit(const ir::FillNode* op) override { written_.insert(op->dst->buffer.get()); }
  void Visit(const ir::ReduceNode* op) override {
    Read(op->src->buffer, "");
    if (!op->clear) Read(op->dst->buffer, "; the reduction adds to it: pass clear=True, or T.fill");
    written_.insert(op->dst->buffer.get());
  }
  void Visit(const ir::GemmNode* op) override {
    Read(op->a->buffer, "");
    Read(op->b->buffer, "");
    if (ir::IsConst(op->clear_accum, 0)) {
      Read(op->c->buffer, "; T.gemm adds to it: T.clear it first, or pass clear_accum");
    }
    written_.insert(op->c->buffer.get());
  }

 private:
  void Read(const ir::Buffer& buffer, const std::string& advice) {
    if (buffer.IsGlobal() || buffer.IsBarrier()) return;
    if (!written_.insert(buffer.get()).second) return;
    Remark(span_, "check", Describe(buffer) + " is read before anything is written to it" + advice);
  }

  std::unordered_set<const tvm::ffi::Object*> written_;
  ir::Span span_;
};

}  // namespace

void RemarkUninitialized(const ir::Func& func) { FirstUse().VisitStmt(func->body); }

}  // namespace tilelang::transform
