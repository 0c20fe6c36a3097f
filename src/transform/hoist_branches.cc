#include "transform/hoist_branches.h"

#include <algorithm>
#include <unordered_map>

#include "ir/aliases.h"
#include "ir/effects.h"
#include "ir/visitor.h"

namespace tilelang::transform {

using ir::Stmt;

namespace {

// Returns whether an expression has one value in all iterations of a loop that surrounds it.
bool IsInvariant(const ir::Expr& e, const ir::Var& loop_var) {
  return !ir::HasExpr(e, [&](const ir::Expr& part) {
    return part.same_as(loop_var) || part->kind == ir::ExprKind::kLoad ||
           part->kind == ir::ExprKind::kCall;
  });
}

// Returns whether no iteration must wait for what other threads did in an earlier one. A barrier
// between iterations cannot stand in a branch that only some threads of a warp take.
bool AreIndependent(const Stmt& iteration) {
  struct Uses {
    int count = 0;
    bool global = false;
    bool writes = false;
  };
  std::unordered_map<const ir::ffi::Object*, Uses> of_memory;
  ir::WalkEffects(iteration, [&](const ir::Effect& effect) {
    bool global = effect.buffer.IsGlobal();
    if (!global && !effect.buffer.IsShared() && !effect.buffer.IsTmem()) return;  // of a thread
    Uses& uses = of_memory[ir::MemoryOf(effect.buffer)];
    ++uses.count;
    uses.global = global;
    uses.writes = uses.writes || effect.Writes();
  });
  return std::all_of(of_memory.begin(), of_memory.end(), [](const auto& item) {
    const Uses& uses = item.second;
    return !uses.writes || (uses.global && uses.count == 1);
  });
}

class BranchHoister : public ir::StmtMutator {
 public:
  using StmtMutator::Rewrite;
  Stmt Rewrite(const ir::ForNode* op) override {
    Stmt rewritten = StmtMutator::Rewrite(op);
    const auto* loop = rewritten.as<ir::ForNode>();
    const auto* branch = loop->body.as<ir::IfNode>();
    if (branch == nullptr || branch->else_case.defined() ||
        !IsInvariant(branch->condition, loop->var) || !AreIndependent(branch->then_case)) {
      return rewritten;
    }
    Stmt inner = ir::For(loop->var, loop->min, loop->extent, loop->Kind(), branch->then_case,
                         loop->annotations, loop->span);
    return ir::If(branch->condition, inner, Stmt(), branch->span);
  }
};

}  // namespace

ir::Func HoistBranches(const ir::Func& func) {
  return func.WithBody(BranchHoister().MutateStmt(func->body));
}

}  // namespace tilelang::transform
