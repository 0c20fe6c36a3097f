// Variables and buffers are used only where they exist.
#include <tvm/ffi/cast.h>

#include <unordered_set>

#include "check/check_parts.h"
#include "ir/compiled.h"
#include "ir/error.h"
#include "ir/visitor.h"
#include "op/gemm_tcgen05.h"

namespace tilelang::check {

namespace {

class ScopeChecker : public ir::StmtVisitor {
 public:
  ScopeChecker(const ir::Array<ir::Any>& params, const Raise& raise) : raise_(raise) {
    for (const ir::Any& param : params) {
      if (auto var = param.as<ir::Var>()) Define(var->get());
      if (auto buffer = param.as<ir::Buffer>()) DefineParam(*buffer);
    }
  }
  using StmtVisitor::Visit;

  void VisitStmt(const ir::Stmt& s) override {
    ir::Span outer = span_;
    if (s.span().defined()) span_ = s.span();
    StmtVisitor::VisitStmt(s);
    span_ = outer;
  }

  void Visit(const ir::VarNode* op) override {
    if (defined_.count(op) != 0) return;
    const ir::Span& at = span_.defined() ? span_ : op->span;  // the use, not the definition
    bool ended = ended_.count(op) != 0;
    raise_(ir::ErrorClass::kScope, at,
           "variable " + std::string(op->name) + " has no value here: " +
               (ended ? "the loop or block that defines it has ended"
                      : "it is no parameter, and no dimension of a parameter"));
  }

  void Visit(const ir::SeqNode* op) override {
    std::vector<const tvm::ffi::Object*> outer = std::move(block_);
    block_.clear();
    StmtVisitor::Visit(op);
    for (const auto* object : block_) End(object);
    block_ = std::move(outer);
  }
  void Visit(const ir::BindNode* op) override {
    VisitExpr(op->value);
    DefineOnce(op->var.get(), "variable " + std::string(op->var->name));
    block_.push_back(op->var.get());
  }
  void Visit(const ir::AllocNode* op) override {
    VisitExprs(op->buffer->shape);
    DefineOnce(op->buffer.get(), Describe(op->buffer));
    block_.push_back(op->buffer.get());
  }
  void Visit(const ir::ForNode* op) override {
    VisitExpr(op->min);
    VisitExpr(op->extent);
    Body({op->var}, op->body);
  }
  void Visit(const ir::ParallelForNode* op) override {
    VisitExprs(op->extents);
    Body(op->vars, op->body);
  }
  void Visit(const ir::KernelLaunchNode* op) override {
    VisitExprs(op->grid);
    ir::Array<ir::Var> vars = op->block_vars;
    for (const ir::Var& var : op->thread_vars) vars.push_back(var);
    if (auto maps = op->attrs.Get("tensor_maps")) {
      for (const TensorMapInfo& map : (*maps).cast<ir::Array<TensorMapInfo>>()) {
        vars.push_back(map->var);
      }
    }
    tensor_memory_.clear();
    ir::WalkStmts(op->body, [&](const ir::Stmt& s) {
      const auto* alloc = s.as<ir::AllocNode>();
      if (alloc != nullptr && alloc->buffer.IsTmem()) tensor_memory_.insert(alloc->buffer.get());
      return true;
    });
    Body(vars, op->body);
  }
  void Visit(const ir::GemmNode* op) override {
    by_mma_warp_ = op::IsByMmaWarp(op);
    StmtVisitor::Visit(op);
    by_mma_warp_ = false;
  }

 protected:
  void VisitBuffer(const ir::Buffer& buffer) override {
    if (defined_.count(buffer.get()) != 0) return;
    // The threads that wait for the warp allocate it: how long it is in use is told there.
    if (by_mma_warp_ && tensor_memory_.count(buffer.get()) != 0) return;
    bool ended = ended_.count(buffer.get()) != 0;
    raise_(ir::ErrorClass::kScope, span_,
           Describe(buffer) + (ended ? " is used after the block that allocates it; allocate it "
                                       "before that block"
                                     : " is neither a parameter nor allocated"));
  }

 private:
  void Define(const tvm::ffi::Object* object) { defined_.insert(object); }
  void DefineOnce(const tvm::ffi::Object* object, const std::string& what) {
    if (defined_.insert(object).second) return;
    raise_(ir::ErrorClass::kScope, span_, what + " is defined twice");
  }
  void End(const tvm::ffi::Object* object) {
    defined_.erase(object);
    ended_.insert(object);
  }

  void DefineParam(const ir::Buffer& buffer) {
    Define(buffer.get());
    for (const auto& sizes : {buffer->shape, buffer->strides}) {
      for (const ir::Expr& size : sizes) {
        ir::WalkExprs(size, [&](const ir::Expr& e) {
          if (e->kind == ir::ExprKind::kVar) Define(e.get());
          return true;
        });
      }
    }
  }

  void Body(const ir::Array<ir::Var>& vars, const ir::Stmt& body) {
    for (const ir::Var& var : vars) {
      DefineOnce(var.get(), "variable " + std::string(var->name));
    }
    VisitStmt(body);
    for (const ir::Var& var : vars) End(var.get());
  }

  const Raise& raise_;
  std::unordered_set<const tvm::ffi::Object*> defined_;
  std::unordered_set<const tvm::ffi::Object*> ended_;
  std::vector<const tvm::ffi::Object*> block_;  // defined by the sequence being visited
  std::unordered_set<const tvm::ffi::Object*> tensor_memory_;  // of the launch
  bool by_mma_warp_ = false;                                   // the gemm being visited
  ir::Span span_;
};

}  // namespace

void CheckScopes(const ir::Func& func, const Raise& raise) {
  ScopeChecker(func->params, raise).VisitStmt(func->body);
}

}  // namespace tilelang::check
