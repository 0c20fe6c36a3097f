#include "transform/join_vectorized.h"

#include <tvm/ffi/cast.h>

#include "ir/effects.h"
#include "ir/visitor.h"

namespace tilelang::transform {

namespace ffi = tvm::ffi;

using ir::Expr;
using ir::Stmt;

namespace {

// Returns whether the loop goes along a dimension of a fragment, and writes nothing that its
// iterations, as those of T.Parallel, could not share.
bool GoesAlongFragment(const ir::ForNode* loop) {
  bool along = false;
  bool apart = true;
  ir::WalkEffects(loop->body, [&](const ir::Effect& effect) {
    apart &= !effect.Writes() || !effect.buffer.IsLocal();
    if (!effect.buffer.IsFragment()) return;
    for (const Expr& index : effect.indices) along |= ir::UsesVar(index, loop->var);
  });
  return along && apart;
}

class VectorizedJoiner : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;

  Stmt Rewrite(const ir::ParallelForNode* op) override {
    auto self = ffi::GetRef<Stmt>(op);
    const auto* inner = op->body.as<ir::ForNode>();
    bool fits = inner != nullptr && inner->Kind() == ir::ForKind::kVectorized &&
                op->annotations.count("loop_layout") == 0 && ir::AsInt(inner->extent) &&
                GoesAlongFragment(inner);
    if (!fits) return self;
    ir::Map<ir::Var, Expr> moved;
    if (!ir::IsConst(inner->min, 0)) moved.Set(inner->var, inner->min + inner->var);
    ir::Array<ir::Var> vars = op->vars;
    ir::Array<Expr> extents = op->extents;
    vars.push_back(inner->var);
    extents.push_back(inner->extent);
    Stmt body = moved.empty() ? inner->body : ir::Substitute(inner->body, moved);
    return ir::ParallelFor(vars, extents, body, op->annotations, op->span);
  }
};

}  // namespace

ir::Func JoinVectorized(const ir::Func& func) {
  return func.WithBody(VectorizedJoiner().MutateStmt(func->body));
}

}  // namespace tilelang::transform
