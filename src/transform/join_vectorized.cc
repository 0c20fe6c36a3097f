#include "transform/join_vectorized.h"

#include <tvm/ffi/cast.h>

#include <algorithm>

#include "ir/effects.h"
#include "ir/visitor.h"

namespace tilelang::transform {

namespace ffi = tvm::ffi;

using ir::Expr;
using ir::Stmt;

namespace {

// Returns whether the loop goes along a dimension of a fragment, and each iteration writes elements
// of its own, of memory that all threads of T.Parallel have.
bool GoesAlongFragment(const ir::ForNode* loop) {
  bool along = false;
  bool apart = true;
  ir::WalkEffects(loop->body, [&](const ir::Effect& effect) {
    bool moves = std::any_of(effect.indices.begin(), effect.indices.end(),
                             [&](const Expr& index) { return ir::UsesVar(index, loop->var); });
    along |= moves && effect.buffer.IsFragment();
    apart &= !effect.Writes() || (moves && !effect.buffer.IsLocal());
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
