#include "analysis/loop_box.h"

#include "ir/visitor.h"

namespace tilelang::analysis {

using ir::Expr;

namespace {

// Returns the variable of the loop that the index uses; none if it uses several, or none.
std::optional<size_t> OnlyVarOf(const Expr& index, const ir::ParallelForNode* loop) {
  std::optional<size_t> only;
  for (size_t i = 0; i < loop->vars.size(); ++i) {
    if (!ir::UsesVar(index, loop->vars[i])) continue;
    if (only) return std::nullopt;
    only = i;
  }
  return only;
}

}  // namespace

std::optional<LoopBox> BoxOf(const ir::Buffer& buffer, const ir::Array<Expr>& indices,
                             const ir::ParallelForNode* loop, arith::Analyzer* analyzer) {
  ir::Map<ir::Var, Expr> first;
  for (const ir::Var& var : loop->vars) first.Set(var, ir::Const(var.dtype(), 0));
  ir::Array<Expr> mins, extents;
  std::vector<size_t> vars;
  for (const Expr& index : indices) {
    if (index.dtype().lanes != 1 || ir::HasLoad(index)) return std::nullopt;
    Expr min = analyzer->Simplify(ir::Substitute(index, first));
    mins.push_back(min);
    auto var = OnlyVarOf(index, loop);
    if (!var) {
      if (!analyzer->CanProveEqual(index, min)) return std::nullopt;
      extents.push_back(ir::Const(index.dtype(), 1));
      continue;
    }
    Expr step = ir::CastTo(index.dtype(), loop->vars[*var]);
    if (!analyzer->CanProveEqual(index, min + step)) return std::nullopt;
    extents.push_back(ir::CastTo(index.dtype(), loop->extents[*var]));
    vars.push_back(*var);
  }
  if (vars.size() != loop->vars.size()) return std::nullopt;
  return LoopBox{ir::Region(buffer, mins, extents), vars};
}

}  // namespace tilelang::analysis
