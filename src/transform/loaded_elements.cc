#include "transform/loaded_elements.h"

#include <tvm/ffi/cast.h>

#include <algorithm>
#include <string>

#include "arith/structural.h"
#include "ir/fresh_copy.h"

namespace tilelang::transform {

namespace ffi = tvm::ffi;

using ir::Array;
using ir::Buffer;
using ir::Expr;
using ir::Stmt;
using ir::Var;

namespace {

// Replaces loads that all iterations make.
class LoadReplacer : public ir::StmtMutator {
 public:
  LoadReplacer(const ir::ParallelForNode* loop,
               const std::function<bool(const ir::LoadNode*)>& stays)
      : loop_(loop), stays_(stays), names_(IndexNames(loop)) {}

  using StmtMutator::Rewrite;
  // A branch is left alone, since not all threads execute it.
  Stmt Rewrite(const ir::IfNode* op) override {
    if (loop_->body.get() == op) return StmtMutator::Rewrite(op);
    return ffi::GetRef<Stmt>(op);
  }
  Stmt Rewrite(const ir::ForNode* op) override { return ffi::GetRef<Stmt>(op); }
  Expr Rewrite(const ir::SelectNode* op) override {
    return ir::Select(Mutate(op->condition), op->true_value, op->false_value, op->span);
  }
  Expr Rewrite(const ir::BinaryNode* op) override {
    bool lazy = op->Op() == ir::BinaryOp::kAnd || op->Op() == ir::BinaryOp::kOr;
    return lazy ? ffi::GetRef<Expr>(op) : StmtMutator::Rewrite(op);
  }
  Expr Rewrite(const ir::CallNode* op) override {
    if (!op->Is(ir::Builtin::kAddressOf)) return StmtMutator::Rewrite(op);
    // The element itself is not loaded.
    const auto* element = op->args[0].as<ir::LoadNode>();
    if (element == nullptr) return ffi::GetRef<Expr>(op);
    Array<Expr> indices;
    for (const Expr& index : element->indices) indices.push_back(Mutate(index));
    return ir::Call(op->dtype, op->name, {ir::Load(element->buffer, indices, element->span)},
                    op->attrs, op->span);
  }
  Expr Rewrite(const ir::LoadNode* op) override {
    Expr self = ffi::GetRef<Expr>(op);
    if (!op->buffer.IsGlobal() || stays_(op)) return self;
    Array<Expr> indices;
    for (const Expr& named : op->indices) {
      indices.push_back(ir::Substitute(named, names_));
      if (ir::HasLoad(indices.back()) || !arith::IsPure(indices.back())) return self;
    }
    const LoadedElements& elements = Of(op, indices);
    Array<Expr> at(elements.vars.begin(), elements.vars.end());
    return ir::Load(elements.tile, at, op->span);
  }

  std::vector<LoadedElements> loaded;

 private:
  const LoadedElements& Of(const ir::LoadNode* op, const Array<Expr>& indices) {
    for (const LoadedElements& known : loaded) {
      bool same = known.tensor.same_as(op->buffer);
      for (size_t d = 0; same && d < indices.size(); ++d) {
        same = arith::SameStructure(known.indices[d], indices[d]);
      }
      if (same) return known;
    }
    Array<Var> vars;
    Array<Expr> shape;
    for (size_t d = 0; d < loop_->vars.size(); ++d) {
      bool follows = std::any_of(indices.begin(), indices.end(), [&](const Expr& index) {
        return ir::UsesVar(index, loop_->vars[d]);
      });
      if (!follows) continue;
      vars.push_back(loop_->vars[d]);
      shape.push_back(loop_->extents[d]);
    }
    Buffer tile(ir::String(std::string(op->buffer->name) + "_first"), op->buffer->dtype, shape, {},
                "local.fragment", {}, op->span);
    loaded.push_back({op->buffer, indices, vars, tile});
    return loaded.back();
  }

  const ir::ParallelForNode* loop_;
  const std::function<bool(const ir::LoadNode*)>& stays_;
  ir::Map<Var, Expr> names_;
};

}  // namespace

ir::Map<Var, Expr> IndexNames(const ir::ParallelForNode* loop) {
  ir::Map<Var, Expr> names;
  ir::WalkStmts(loop->body, [&](const Stmt& s) {
    const auto* bind = s.as<ir::BindNode>();
    if (bind == nullptr || ir::IsFloat(bind->value.dtype()) || ir::HasLoad(bind->value)) {
      return true;
    }
    names.Set(bind->var, ir::Substitute(bind->value, names));
    return true;
  });
  return names;
}

Stmt LoadedElements::Load(const ir::Span& span) const {
  Array<Expr> at(vars.begin(), vars.end());
  Stmt load = ir::Store(tile, at, ir::Load(tensor, indices, span), span);
  return ir::FreshCopy().MutateStmt(ir::ParallelFor(vars, tile->shape, load, {}, span));
}

SplitLoop SplitLoads(const ir::ParallelForNode* loop,
                     const std::function<bool(const ir::LoadNode*)>& stays) {
  LoadReplacer replacer(loop, stays);
  Stmt body = replacer.MutateStmt(loop->body);
  return {std::move(replacer.loaded), body};
}

}  // namespace tilelang::transform
