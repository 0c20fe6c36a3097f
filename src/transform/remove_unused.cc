#include "transform/remove_unused.h"

#include <tvm/ffi/cast.h>

#include <unordered_set>

#include "arith/structural.h"
#include "ir/visitor.h"

namespace tilelang::transform {

using ir::Expr;
using ir::Stmt;

namespace {

// Variables and buffers that are used, other than by their own definition.
class UseCollector : public ir::StmtVisitor {
 public:
  using StmtVisitor::Visit;
  void Visit(const ir::VarNode* op) override { used_.insert(op); }

  void Visit(const ir::CallNode* op) override {
    Attributes(op->attrs);
    StmtVisitor::Visit(op);
  }

  // The allocation itself is no use, but what its shape and initial value mention is used.
  void Visit(const ir::AllocNode* op) override { Definition(op->buffer); }

  bool Uses(const tvm::ffi::Object* object) const { return used_.count(object) != 0; }

 protected:
  void VisitBuffer(const ir::Buffer& buffer) override {
    if (used_.insert(buffer.get()).second) Definition(buffer);
  }

 private:
  void Definition(const ir::Buffer& buffer) {
    VisitExprs(buffer->shape);
    VisitExprs(buffer->strides);
    Attributes(buffer->attrs);
  }

  void Attributes(const ir::Map<ir::String, ir::Any>& attrs) {
    for (const auto& item : attrs) Attribute(item.second);
  }

  void Attribute(const ir::Any& value) {
    if (auto e = value.as<Expr>()) VisitExpr(*e);
    if (auto buffer = value.as<ir::Buffer>()) VisitBuffer(*buffer);
    if (auto list = value.as<ir::Array<ir::Any>>()) {
      for (const ir::Any& item : *list) Attribute(item);
    }
  }

  std::unordered_set<const tvm::ffi::Object*> used_;
};

class Remover : public ir::StmtMutator {
 public:
  explicit Remover(const UseCollector& uses) : uses_(uses) {}
  using StmtMutator::Rewrite;

  Stmt Rewrite(const ir::SeqNode* op) override {
    std::vector<Stmt> kept;
    bool changed = false;
    for (const Stmt& s : op->stmts) {
      if (IsUnused(s)) continue;
      kept.push_back(MutateStmt(s));
      changed = changed || !kept.back().same_as(s);
    }
    if (!changed && kept.size() == op->stmts.size()) return tvm::ffi::GetRef<Stmt>(op);
    return ir::MakeSeq(kept, op->span);
  }

 private:
  bool IsUnused(const Stmt& s) const {
    if (const auto* bind = s.as<ir::BindNode>()) {
      return !uses_.Uses(bind->var.get()) && arith::IsPure(bind->value);
    }
    const auto* alloc = s.as<ir::AllocNode>();
    if (alloc == nullptr || alloc->buffer.IsBarrier() || alloc->buffer.IsTmem()) return false;
    return !uses_.Uses(alloc->buffer.get());
  }

  const UseCollector& uses_;
};

}  // namespace

Stmt RemoveUnused(const Stmt& body) {
  // Taking a definition away may leave others unused.
  Stmt current = body;
  while (true) {
    UseCollector uses;
    uses.VisitStmt(current);
    Stmt smaller = Remover(uses).MutateStmt(current);
    if (smaller.same_as(current)) return current;
    current = smaller;
  }
}

}  // namespace tilelang::transform
