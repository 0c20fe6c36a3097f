#include "transform/trim_parallel.h"

#include <tvm/ffi/cast.h>

#include "arith/analyzer.h"
#include "ir/effects.h"
#include "ir/visitor.h"

namespace tilelang::transform {

namespace ffi = tvm::ffi;

using ir::Expr;
using ir::Stmt;

namespace {

// Returns whether an index of a fragment leaves its tile in some iteration.
bool LeavesFragment(const ir::ParallelForNode* loop, arith::Analyzer* analyzer) {
  bool leaves = false;
  ir::WalkEffects(loop->body, [&](const ir::Effect& effect) {
    if (!effect.buffer.IsFragment()) return;
    for (size_t d = 0; d < effect.indices.size(); ++d) {
      auto extent = ir::AsInt(effect.buffer->shape[d]);
      arith::Interval bounds = analyzer->ConstBounds(effect.indices[d]);
      leaves |= extent && bounds.IsFinite() && (bounds.lo < 0 || bounds.hi >= *extent);
    }
  });
  return leaves;
}

class ParallelTrimmer : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;

  Stmt Rewrite(const ir::ParallelForNode* op) override {
    auto self = ffi::GetRef<Stmt>(op);
    const auto* branch = op->body.as<ir::IfNode>();
    auto extents = ir::AsInts(op->extents);
    bool fits = branch != nullptr && !branch->else_case.defined() && extents &&
                op->annotations.count("loop_layout") == 0;
    if (!fits) return self;
    arith::Analyzer analyzer;
    ir::Array<Expr> kept;
    ir::Map<ir::Var, Expr> moved;
    bool trims = false;
    {
      arith::Analyzer::Scope scope(&analyzer);
      for (size_t i = 0; i < op->vars.size(); ++i) {
        analyzer.Bind(op->vars[i], ir::Const(op->vars[i].dtype(), 0), op->extents[i]);
      }
      if (!LeavesFragment(op, &analyzer)) return self;
      analyzer.Assume(branch->condition);
      for (size_t i = 0; i < op->vars.size(); ++i) {
        arith::Interval bounds = analyzer.ConstBounds(op->vars[i]);
        int64_t count = bounds.hi - bounds.lo + 1;
        if (count <= 0) return self;
        trims |= count < (*extents)[i];
        kept.push_back(ir::Const(op->extents[i].dtype(), count));
        if (bounds.lo != 0) {
          Expr first = ir::Const(op->vars[i].dtype(), bounds.lo);
          moved.Set(op->vars[i], op->vars[i] + first);
        }
      }
    }
    if (!trims) return self;
    for (size_t i = 0; i < op->vars.size(); ++i) {
      analyzer.Bind(op->vars[i], ir::Const(op->vars[i].dtype(), 0), kept[i]);
    }
    Expr condition = analyzer.Simplify(ir::Substitute(branch->condition, moved));
    Stmt body = ir::Substitute(branch->then_case, moved);
    if (!ir::IsConst(condition, 1)) body = ir::If(condition, body, Stmt(), branch->span);
    return ir::ParallelFor(op->vars, kept, body, op->annotations, op->span);
  }
};

}  // namespace

ir::Func TrimParallel(const ir::Func& func) {
  return func.WithBody(ParallelTrimmer().MutateStmt(func->body));
}

}  // namespace tilelang::transform
